#!/usr/bin/env python3
"""The completion of the commands in bash and zsh: completion_test.py SOURCE COMMAND..."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
source, commands = pathlib.Path(sys.argv[1]), sys.argv[2:]


def runnable(command, folder):
    """A script that the build makes becomes executable when it is installed: a copy that is."""
    if os.access(command, os.X_OK):
        return command
    copy = shutil.copy(command, folder)
    os.chmod(copy, 0o755)
    return copy


# As readline calls it: the words before the cursor, which stands in the last.
ASK = r'''
source "$1"
shift
function=$(complete -p "$1")
function=${function#*-F }
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"${function%% *}"
printf '%s\n' "${COMPREPLY[@]}"
'''
# zsh keeps what compdef was given; _arguments is replaced by what shows that it is called.
LOADS = r'''
emulate -R zsh
fpath=("$1" $fpath)
autoload -U compinit && compinit -D -u
for file in "$1"/_*; do
  name=${file:t}
  [[ ${_comps[${name#_}]} == $name ]] || { print "$name: not registered"; exit 1 }
done
_arguments() { print -r -- "$@" }
words=(weft-store '') CURRENT=2
autoload +X _weft-store && _weft-store
'''


def complete(folder, *words):
    done = subprocess.run(['bash', '-c', ASK, 'bash', folder / 'bash-completion/completions' / words[0], *words],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and not done.stderr, (words, done)
    return done.stdout.split()


with tempfile.TemporaryDirectory(prefix='weft-completion-') as name:
    folder = pathlib.Path(name)
    commands = [runnable(command, folder) for command in commands]
    done = subprocess.run([source / 'scripts/completions', folder, *commands], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == 0 and not done.stderr, done
    made = sorted(path.name for path in (folder / 'bash-completion/completions').iterdir())
    assert made == sorted(pathlib.Path(command).name for command in commands), made
    for words, wanted in (
            (['weft-store', 'pu'], ['put', 'push']),
            (['weft-store', '--memory', '1GiB', 'pu'], ['put', 'push']),
            (['weft-store', 'put', '--pi'], ['--pin']),
            # Its own options stand behind the commands, too.
            (['weft-store', 'put', '--sock'], ['--socket']),
            (['weft-store', '--bind', ''], ['numa', 'none']),
            (['weft-store', '--bind', '=', 'nu'], ['numa']),
            (['weft-store', 'status', '--j'], ['--json']),
            (['weft-copy', '--del'], ['--delete']),
            (['weft-switch', 'se'], ['serve']),
            (['weft-switch', 'serve', '--role', 's'], ['spine']),
            (['weftrun', '--on-death', 'k'], ['kill']),
            (['weftrun', '--hostf'], ['--hostfile']),
            # The options of the program are not weftrun's.
            (['weftrun', '-n', '2', './program', '--hostf'], [])):
        found = complete(folder, *words)
        assert found == wanted, (words, found)
    if shutil.which('zsh') is None:
        print('no zsh here: bash passed')
        sys.exit(77)
    for path in (folder / 'zsh/site-functions').iterdir():
        done = subprocess.run(['zsh', '-n', path], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0 and not done.stderr, (path.name, done)
    done = subprocess.run(['zsh', '-f', '-c', LOADS, 'zsh', folder / 'zsh/site-functions'], capture_output=True,
                          text=True, timeout=60, check=False)
    assert '--memory=[' in done.stdout and '--bind=[' in done.stdout and '(numa none)' in done.stdout, done
print(f'{len(made)} commands')
