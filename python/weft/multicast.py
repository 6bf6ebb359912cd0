"""Bytes and files to many hosts at once, by Weft's reliable multicast: each host passes on what it
gets, so many take little longer than one.

    from weft import multicast
    with multicast.Receiver("0.0.0.0:7500", "folder", secret="..."): ...        # on a and b
    multicast.send_bytes(b"...", "name", to=["a:7500", "b:7500"], secret="...")
    multicast.send_files(["model/"], to=["a:7500", "b:7500"], secret="...")

Files arrive below the receiver's folder, each under its name once it is whole. Everything is done by
the command weft-copy in processes of its own: docs/use/multicast.md has its guarantees.

A send raises weft.Error, whose text names the hosts that have not got everything and says why; the
others have it. What can never be right raises ValueError or TypeError. Each send has a form for
asyncio, with _async behind its name; a cancelled one goes on to its end.
"""
from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from types import TracebackType
from typing import Any, Iterable

from ._library import command
from ._threads import in_thread
from .errors import Error

__all__ = ["Receiver", "send_bytes", "send_files", "send_bytes_async", "send_files_async"]


def _secret_file(secret: str | bytes, folder: str) -> str:
    """weft-copy takes the first line of a file that nobody else may read."""
    encoded = secret.encode() if isinstance(secret, str) else bytes(memoryview(secret))
    if not encoded or any(byte in encoded for byte in b"\n\r\0"):
        raise ValueError("the secret is empty or has an end of line or a NUL in it: weft-copy reads it "
                         "from the line of a file")
    path = os.path.join(folder, "secret")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(encoded + b"\n")
    return path


class Receiver:
    """Receives below `folder`, until it is closed. address: HOST:PORT or unix:PATH; host 0.0.0.0:
    from any network."""

    def __init__(self, address: str, folder: str | os.PathLike[str], secret: str | bytes) -> None:
        self.address, self.folder = address, os.fspath(folder)
        self._process: subprocess.Popen[str] | None = None
        if not os.path.isdir(self.folder):
            raise Error("not found", f"{self.folder}: there is no such folder: make it before")
        # Kept as long as the listener, and removed with it.
        self._scratch = tempfile.TemporaryDirectory(prefix="weft-secret-")
        try:
            # Standard error is the program's: the listener reports failed senders there.
            self._process = subprocess.Popen(
                [command("weft-copy"), "--listen", address, "--secret-file",
                 _secret_file(secret, self._scratch.name)],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            if not self._process.stdout.readline():
                status = self._process.wait()
                raise Error("bad argument", f"cannot receive at {address}: weft-copy ended with status "
                            f"{status}; its reason is on standard error")
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<weft.multicast.Receiver at {self.address} of {self.folder!r}>"

    def close(self) -> None:
        """Ends it, and what it receives at the moment."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._scratch.cleanup()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def _send(words: list[str], contents: Any, to: Iterable[str], secret: str | bytes,
          into: str | None, rate: float | None) -> None:
    hosts = [to] if isinstance(to, str) else list(to)
    if not hosts:
        raise ValueError("to: there is no address of a receiver")
    for host in hosts:
        if "," in host:
            raise ValueError(f"to: {host!r} has a comma in it: give a list of addresses")
    with tempfile.TemporaryDirectory(prefix="weft-secret-") as folder:
        line = [command("weft-copy"), "--quiet", "--listening", ",".join(hosts), "--secret-file",
                _secret_file(secret, folder)]
        if into is not None:
            line += ["--into", into]
        if rate is not None:
            line += ["--rate", str(rate)]
        # Without input of its own the child would read the program's.
        done = subprocess.run([*line, *words], input=b"" if contents is None else contents,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    if done.returncode:
        text = done.stderr.decode(errors="replace").strip()
        raise Error("bad argument" if done.returncode == 2 else "not delivered",
                    text or f"weft-copy ended with status {done.returncode}")


def send_bytes(data: Any, name: str, to: Iterable[str], secret: str | bytes, *,
               into: str | None = None, rate: float | None = None) -> None:
    """Returns once all receivers have a file of that name with the bytes. data: bytes or anything
    with a buffer. into: a folder below theirs. rate: MB/s at most."""
    _send(["-", "--name", name], memoryview(data).cast("B"), to, secret, into, rate)


def send_files(paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
               to: Iterable[str], secret: str | bytes, *, into: str | None = None,
               rate: float | None = None, resume: bool = False) -> None:
    """Returns once all receivers have the files and folders. What they have already, by size and
    time, is left out. resume: go on in the middle of large files."""
    listed = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not listed:
        raise ValueError("paths: there is no file to send")
    # "-" is a file here, too, and a name that begins so no option.
    words = [os.path.join(".", path) if path.startswith("-") else path
             for path in (os.fspath(one) for one in listed)]
    _send([*(["--resume"] if resume else []), *words], None, to, secret, into, rate)


async def send_bytes_async(data: Any, name: str, to: Iterable[str], secret: str | bytes, *,
                           into: str | None = None, rate: float | None = None) -> None:
    """send_bytes() for asyncio."""
    await in_thread(send_bytes, data, name, to, secret, into=into, rate=rate)


async def send_files_async(paths: Iterable[str | os.PathLike[str]] | str | os.PathLike[str],
                           to: Iterable[str], secret: str | bytes, *, into: str | None = None,
                           rate: float | None = None, resume: bool = False) -> None:
    """send_files() for asyncio."""
    await in_thread(send_files, paths, to, secret, into=into, rate=rate, resume=resume)
