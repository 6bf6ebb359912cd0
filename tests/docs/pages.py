#!/usr/bin/env python3
"""Does what pages of the documentation say: their programs are written to files, their commands run in one
shell for each page, and what these print is compared with what the page shows.

  pages.py --prefix INSTALLED PAGE...

A program of this page or one before it is a block of ```cpp (or c, fortran, python) behind a line that ends in its
file's name, as "`hello.cpp`:". Commands are the lines with "$ " of a block of ```console; what follows each is its
output, in which a line "..." stands for any lines, and "..." in a line for any text. A line "$ ... &" begins something
that runs until the page's end. Weft is installed in $HOME/weft. A program of a page that has the name of one in
examples/graph is the same.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

LIMIT_S = 240  # a page, under sanitizers' neighbours on a busy machine
BLOCK = re.compile(r'^```(\w+)\n(.*?)^```$', re.MULTILINE | re.DOTALL)
MARK = '=== weft page, command '
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'examples', 'graph')


def programs(text):
    """File name: source."""
    found = {}
    for block in BLOCK.finditer(text):
        if block[1] in ('c', 'cpp', 'fortran', 'python'):
            name = re.search(r'`([\w.-]+\.(?:c|cpp|hpp|f90|py))`:\s*$', text[:block.start()])
            if name:
                found[name[1]] = block[2]
    return found


def commands(text):
    """(command, shown output) in their order."""
    found = []
    for block in BLOCK.finditer(text):
        if block[1] != 'console':
            continue
        for line in block[2].splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            elif line.startswith('> ') and found and not found[-1][1]:
                found[-1] = (found[-1][0] + '\n' + line[2:], [])
            elif found:
                found[-1][1].append(line)
    return found


def matches(shown, printed):
    """Whether the page's lines are those that were printed; "..." are any."""
    if not shown:
        return not printed
    if shown[0] == '...':
        return any(matches(shown[1:], printed[skip:]) for skip in range(len(printed) + 1))
    line = '.*'.join(map(re.escape, shown[0].rstrip().split('...')))
    return bool(printed) and bool(re.fullmatch(line, printed[0].rstrip())) and matches(shown[1:], printed[1:])


def run(script, folder, env):
    """What the shell printed, and nothing of it is left running."""
    shell = subprocess.Popen(['bash', '-c', script], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        return shell.communicate(timeout=LIMIT_S)[0].decode(errors='replace')
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b'').decode(errors='replace') + f'\nnot ended within {LIMIT_S} s'
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.communicate()


def check(page, prefix, known):
    """Complaints. `known`: the programs of the pages so far, to which this page's are added."""
    with open(page, encoding='utf-8') as file:
        text = file.read()
    steps = commands(text)
    if not steps:
        return [f'{page}: has no block of commands (```console)']
    folder = tempfile.mkdtemp(prefix='weft-page-')
    try:
        os.symlink(prefix, os.path.join(folder, 'weft'))
        here = programs(text)
        wrong = [f'{page}: {name} is not that of examples/graph' for name, source in here.items()
                 if os.path.exists(os.path.join(EXAMPLES, name)) and
                 open(os.path.join(EXAMPLES, name), encoding='utf-8').read() != source]
        known |= here
        for name, source in known.items():
            with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                file.write(source)
        env = {name: value for name, value in os.environ.items()
               if not name.startswith('WEFT_') and name != 'LD_LIBRARY_PATH'}
        env |= {'PATH': f'{prefix}/bin:{env["PATH"]}', 'PKG_CONFIG_PATH': f'{prefix}/lib/pkgconfig',
                'HOME': folder, 'TMPDIR': folder, 'XDG_RUNTIME_DIR': folder, 'LC_ALL': 'C.UTF-8',
                # On a busy machine silence means nothing.
                'WEFT_PEER_TIMEOUT_MS': '60000', 'WEFT_OFFLOAD_TIMEOUT_MS': '60000'}
        script = ''
        for number, (command, _) in enumerate(steps):
            script += f'{command}\necho "{MARK}{number} ended with $?"\n'
        # What still runs is told to end, and may tidy up.
        script += 'jobs -p | xargs -r kill; wait\n'
        printed = run(script, folder, env)
        rest = printed
        for number, (command, shown) in enumerate(steps):
            output, mark, rest = rest.partition(f'{MARK}{number} ended with ')
            status, _, rest = rest.partition('\n')
            lines = output.splitlines()
            if not mark or status != '0' or not matches(shown, lines):
                wrong.append(f'{page}: $ {command}\n' + ''.join(f'  shown:   {line}\n' for line in shown) +
                             ''.join(f'  printed: {line}\n' for line in lines) +
                             (f'  ended with {status}' if mark else '  did not end'))
                if not mark:
                    break
        return wrong
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--prefix', required=True)
    parser.add_argument('pages', nargs='+')
    options = parser.parse_args()
    wrong, known = [], {}
    for page in options.pages:
        new = check(page, os.path.abspath(options.prefix), known)
        print(f'{page}: ' + ('differs' if new else 'as it says'), flush=True)
        wrong += new
    print('\n'.join(wrong))
    return 1 if wrong else 0


sys.exit(main())
