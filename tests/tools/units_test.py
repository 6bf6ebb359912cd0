#!/usr/bin/env python3
"""The units of the servers for systemd: units_test.py UNIT=COMMAND..., COMMAND the server as built."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HARDENING = ('NoNewPrivileges=yes', 'MemoryDenyWriteExecute=yes', 'SystemCallFilter=@system-service',
             'RestrictAddressFamilies=')

analyze = shutil.which('systemd-analyze')
with tempfile.TemporaryDirectory(prefix='weft-units-') as name:
    folder = pathlib.Path(name)
    for pair in sys.argv[1:]:
        unit, _, command = pair.partition('=')
        text = pathlib.Path(unit).read_text(encoding='utf-8')
        assert '@' not in re.sub(r'@system-service|@\w+', '', text), text
        assert all(option in text for option in HARDENING), text
        assert 'Reload: there is none.' in text and '/healthz' in text, text
        # The options of the unit are the command's.
        start = re.search(r'^ExecStart=(\S+) (.*)$', text, re.MULTILINE)
        assert os.path.basename(start.group(1)) == os.path.basename(command), start
        rows = subprocess.run([command, '--print-options'], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        for word in re.findall(r'(?<= )--[a-z-]+', start.group(2)):
            assert re.search(rf'\t(\S+,)?{word}[,\t]', rows), (start.group(), word)
        if analyze is None:
            continue
        copy = folder / os.path.basename(unit)
        copy.write_text(text.replace(start.group(1), os.path.abspath(command)), encoding='utf-8')
        is_user = f'{os.sep}user{os.sep}' in unit or 'default.target' in text
        done = subprocess.run([analyze, *(['--user'] if is_user else []), '--man=no', 'verify', copy],
                              capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, 'XDG_RUNTIME_DIR': name})
        assert done.returncode == 0 and not done.stderr, (unit, done)
if analyze is None:
    print('no systemd-analyze here: the rest of the test passed')
    sys.exit(77)
print('as expected')
