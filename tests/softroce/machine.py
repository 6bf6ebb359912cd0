"""The guests' kernel and first file system, made once from Debian's packages and kept in a cache.

Nothing is installed: the kernel package is downloaded and unpacked. The cache is build-softroce, one
folder per content, about 15 MB. Debian's kernel is without siw: where that is wanted, its source, of
the same version, is compiled.
"""
import contextlib
import fcntl
import gzip
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# What a guest needs on top of what the kernel has built in; what these depend on comes with them.
MODULES = [
    'virtio_pci', 'virtio_console', 'virtio_rng', 'virtio_net', '9pnet_virtio', '9p', 'overlay',
    'veth', 'dummy',
    'ib_uverbs', 'rdma_ucm', 'ib_umad',
    'sch_netem', 'sch_tbf', 'sch_prio', 'sch_htb', 'sch_ingress', 'cls_u32', 'act_gact',
]
# And their modules, behind the checksum without which they do not load. Guests with siw have rxe, too, for
# jobs of both.
RXE = ['crc32_generic', 'rdma_rxe']
DEVICES = {'rxe': RXE, 'siw': ['crc32c_generic', 'siw', *RXE]}


class Missing(Exception):
    """Something this machine does not have and that could not be installed."""


def need_programs():
    """Installs what is missing of the package group softroce."""
    names = ['qemu-system-x86_64', 'busybox', 'depmod', 'rdma', 'tc']
    path = os.environ.get('PATH', '') + ':/usr/sbin:/sbin'

    def absent():
        return ', '.join(name for name in names if not shutil.which(name, path=path))

    if not absent():
        return
    done = subprocess.run([os.path.join(ROOT, 'scripts/install-packages'), 'softroce'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if absent():
        raise Missing(f'no {absent()}: ' +
                      (done.stdout.decode(errors='replace').strip() or 'though its package is installed')
                      .splitlines()[-1])


def kernel_package():
    """Name and version of the package that holds Debian's current kernel."""
    for update in (False, True):
        if update:
            subprocess.run(['apt-get', '-q', 'update'], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        text = subprocess.run(['apt-cache', 'depends', 'linux-image-amd64'], check=False,
                              capture_output=True, text=True).stdout
        found = re.search(r'Depends: (linux-image-\S+)', text)
        if not found:
            continue
        text = subprocess.run(['apt-cache', 'policy', found[1]], check=False, capture_output=True,
                              text=True).stdout
        version = re.search(r'Candidate: (\S+)', text)
        if version and version[1] != '(none)':
            return found[1], version[1]
    raise Missing('no Debian kernel package is known to apt')


def archive(entries):
    """A cpio archive (format newc) of (path, mode, bytes), as the kernel unpacks at its start."""
    out = bytearray()

    def append(name, mode, data, number):
        encoded = name.encode() + b'\0'
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
        out.extend(b'070701' + b''.join(b'%08X' % field for field in fields) + encoded)
        out.extend(bytes(-len(out) % 4))
        out.extend(data)
        out.extend(bytes(-len(out) % 4))

    for number, (name, mode, data) in enumerate(entries, 1):
        append(name, mode, data, number)
    append('TRAILER!!!', 0, b'', 0)
    return bytes(out)


def in_load_order(folder, names):
    """The modules' files, each after those it depends on, by modules.dep."""
    depends, path_of = {}, {}
    with open(os.path.join(folder, 'modules.dep'), encoding='utf-8') as file:
        for line in file:
            path, _, rest = line.partition(':')
            depends[path] = rest.split()
            path_of[re.sub(r'\.ko.*', '', os.path.basename(path)).replace('-', '_')] = path
    order = []

    def add(path):
        if path in order:
            return
        for other in reversed(depends[path]):
            add(other)
        order.append(path)

    for name in names:
        if name in path_of:  # otherwise the kernel has it built in
            add(path_of[name])
    return order


def read_module(path):
    with open(path, 'rb') as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith('.xz') else data


def first_files(modules, device):
    folders = [(name, 0o040755, b'') for name in ('bin', 'modules', 'proc', 'sys', 'dev')]
    with open(shutil.which('busybox', path='/bin:/usr/bin'), 'rb') as file:
        files = [('bin/busybox', 0o100755, file.read())]
    with open(os.path.join(HERE, 'init'), 'rb') as file:
        files.append(('init', 0o100755, file.read()))
    order = in_load_order(modules, [*MODULES, *DEVICES[device]])
    names = []
    for path in order:
        names.append(re.sub(r'\.xz$', '', os.path.basename(path)))
        files.append((f'modules/{names[-1]}', 0o100644, read_module(os.path.join(modules, path))))
    files.append(('modules/order', 0o100644, '\n'.join(names).encode() + b'\n'))
    return archive(folders + files)


def unpack(package, version, work, tree):
    """Downloads a package and unpacks it in a folder of `work`."""
    done = subprocess.run(['apt-get', '-q', 'download', f'{package}={version}'], cwd=work, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    debs = [name for name in os.listdir(work) if name.endswith('.deb')]
    if done.returncode or len(debs) != 1:
        raise Missing(f'cannot download {package}: ' + done.stdout.decode(errors='replace').strip()[-300:])
    subprocess.run(['dpkg', '-x', debs[0], tree], cwd=work, check=True)
    os.remove(os.path.join(work, debs[0]))


def compile_siw(work, tree, release, version):
    """Puts siw.ko among the unpacked kernel's modules."""
    numbers = re.match(r'(\d+\.\d+)(\.[^-]+-[^-]+)-', release)
    if not numbers:
        raise Missing(f"no number of Debian's: kernel {release}")
    series = numbers[1]
    headers = f'linux-headers-{release}'
    for package in (headers, f'linux-headers-{series}{numbers[2]}-common', f'linux-kbuild-{series}',
                    f'linux-source-{series}'):
        unpack(package, version, work, 'headers')
    above = os.path.join(work, 'headers/usr/src')
    source = f'linux-source-{series}'
    siw = f'{source}/drivers/infiniband/sw/siw'
    subprocess.run(['tar', '-xf', f'{source}.tar.xz', siw], cwd=above, check=True)
    makefile = os.path.join(above, headers, 'Makefile')
    with open(makefile, encoding='utf-8') as file:
        text = file.read()
    with open(makefile, 'w', encoding='utf-8') as file:
        file.write(text.replace('/usr/src', above))
    done = subprocess.run(
        ['make', '-C', os.path.join(above, headers), f'M={os.path.join(above, siw)}', 'CONFIG_RDMA_SIW=m',
         'modules'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    made = os.path.join(above, siw, 'siw.ko')
    if not os.path.exists(made):
        raise Missing('cannot compile siw: ' + done.stdout.decode(errors='replace').strip()[-300:])
    shutil.copy(made, os.path.join(tree, 'lib/modules', release, 'kernel'))


def build(folder, package, version, device):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as work:
        unpack(package, version, work, 'tree')
        tree = os.path.join(work, 'tree')
        release = os.listdir(os.path.join(tree, 'lib/modules'))[0]
        if device == 'siw':
            compile_siw(work, tree, release, version)
        subprocess.run(['depmod', '-b', tree, release], check=True, stderr=subprocess.DEVNULL,
                       env={**os.environ, 'PATH': os.environ['PATH'] + ':/usr/sbin:/sbin'})
        fresh = os.path.join(work, 'fresh')
        os.mkdir(fresh)
        shutil.copy(os.path.join(tree, 'boot', f'vmlinuz-{release}'), os.path.join(fresh, 'kernel'))
        with open(os.path.join(fresh, 'files'), 'wb') as file:
            data = gzip.compress(first_files(os.path.join(tree, 'lib/modules', release), device), 6)
            file.write(data + bytes(-len(data) % 4))
        os.rename(fresh, folder)


def prepare(device, say):
    """Returns the paths of the kernel and of the initial files, made now if need be."""
    need_programs()
    cache = os.path.join(ROOT, 'build-softroce')
    os.makedirs(cache, exist_ok=True)
    content = hashlib.sha256(' '.join(MODULES).encode())
    for name in ('init', 'machine.py'):
        with open(os.path.join(HERE, name), 'rb') as file:
            content.update(file.read())
    # Which kernel it was made from does not matter as long as it is there: asking apt takes seconds.
    folder = os.path.join(cache, f'{device}-{content.hexdigest()[:16]}')
    with open(os.path.join(cache, 'lock'), 'w', encoding='utf-8') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder):
            package, version = kernel_package()
            say(f'unpacking {package} {version} into {cache}')
            build(folder, package, version, device)
            # Older ones are of contents of the past; a guest that runs keeps its files open.
            for name in os.listdir(cache):
                if name.startswith(f'{device}-') and name != os.path.basename(folder):
                    with contextlib.suppress(OSError):
                        shutil.rmtree(os.path.join(cache, name))
    return os.path.join(folder, 'kernel'), os.path.join(folder, 'files')
