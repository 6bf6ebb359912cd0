#!/usr/bin/env python3
"""The manual pages of the commands: man_test.py SOURCE COMMAND...

Each has all sections and all options of its command, and man and mandoc have no complaint of it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
source, commands = pathlib.Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, str(source / 'scripts'))
import command_options  # noqa: E402


def runnable(command, folder):
    """A script that the build makes becomes executable when it is installed: a copy that is."""
    if os.access(command, os.X_OK):
        return command
    copy = shutil.copy(command, folder)
    os.chmod(copy, 0o755)
    return copy


SECTIONS = ['NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXIT STATUS', 'ENVIRONMENT', 'FILES', 'EXAMPLES', 'SEE ALSO']


def headings(page):
    return [name.strip('"') for name in re.findall(r'^\.SH (.*)$', page, re.MULTILINE)]


def plain(page):
    """The page's text without what is roff's."""
    return re.sub(r'\\f[BRI]|\\&|\\:', '', page).replace('\\-', '-').replace('\\e', '\\')


def options(command):
    yield from (name for option in command.options for name in option.names)
    for below in command.below:
        yield from options(below)


with tempfile.TemporaryDirectory(prefix='weft-man-') as folder:
    commands = [runnable(command, folder) for command in commands]
    done = subprocess.run([source / 'scripts/man-pages', folder, *commands], capture_output=True, text=True, check=False,
                          timeout=120, env={**os.environ, 'SOURCE_DATE_EPOCH': '0'})
    assert done.returncode == 0 and not done.stderr, done
    pages = {path.name: path for path in pathlib.Path(folder).glob('man?/*')}
    assert {'weft.7', 'weft-settings.7'} < set(pages), pages
    for command in commands:
        name = os.path.basename(command)
        page = pages[name + '.1'].read_text(encoding='utf-8')
        assert ' 1970-01-01 ' in page.split('\n')[0], page[:100]
        found = headings(page)
        assert [heading for heading in found if heading in SECTIONS] == SECTIONS, (name, found)
        described = command_options.read(command)
        missing = [option for option in options(described) if option not in plain(page)]
        assert not missing, (name, missing)
        # The pages that it sends the reader to.
        for other, section in re.findall(r'([\w+-]+)\((\d)\)', plain(page.partition('.SH "SEE ALSO"')[2])):
            assert f'{other}.{section}' in pages, (name, other)
    settings = plain(pages['weft-settings.7'].read_text(encoding='utf-8'))
    table = (source / 'libcomm/base/settings_table.hpp').read_text(encoding='utf-8')
    names = re.findall(r'^WEFT_SETTING\(\w+, "(\w+)"', table, re.MULTILINE)
    assert len(names) > 20 and all(re.search(rf'^WEFT_{name}$', settings, re.MULTILINE) for name in names), names
    user, _, expert = settings.partition('SETTINGS FOR EXPERTS')
    assert 'WEFT_FABRIC\n' in user and 'WEFT_SPIN_US\n' in expert and 'microseconds' in expert, settings
    lacking = [tool for tool in ('man', 'mandoc') if shutil.which(tool) is None]
    for path in pages.values():
        for tool, words in (('man', ['man', '--warnings', '-l']), ('mandoc', ['mandoc', '-T', 'lint'])):
            if tool in lacking:
                continue
            done = subprocess.run([*words, path], capture_output=True, text=True, timeout=60, check=False,
                                  env={**os.environ, 'MANWIDTH': '80', 'MANPAGER': 'cat', 'LC_ALL': 'C.UTF-8'})
            complaints = done.stderr + (done.stdout if tool == 'mandoc' else '')
            assert done.returncode == 0 and not complaints, (path.name, tool, complaints)
if lacking:
    print(f'no {" and no ".join(lacking)} here: the rest of the test passed')
    sys.exit(77)
print(f'{len(pages)} pages')
