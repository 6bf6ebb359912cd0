"""The options of Weft's commands as data, for scripts/man-pages and scripts/completions: from a command's
--print-options (tools/cli/cli.hpp has its rows), or from its --help where it has none (weftrun and the compiler
wrappers)."""
import dataclasses
import pathlib
import re
import subprocess


@dataclasses.dataclass
class Option:
    names: list          # ['-h', '--help']; of an argument its name alone
    value: str           # how the value is named; empty: a flag
    words: list          # the values, where only certain words are
    default: str
    is_several: bool
    about: str


@dataclasses.dataclass
class Command:
    path: list           # ['weft-store', 'put']
    about: str
    passes: bool = False      # what follows belongs to another program
    anywhere: bool = False    # its options may stand behind those of a command below it, too
    options: list = dataclasses.field(default_factory=list)
    arguments: list = dataclasses.field(default_factory=list)
    below: list = dataclasses.field(default_factory=list)
    help: str = ''       # the text of --help, where options are read from that


def output(command, flag):
    """What a command prints, or None."""
    try:
        done = subprocess.run([command, flag], capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.rstrip('\n') if done.returncode == 0 and done.stdout.strip() else None


def of_rows(text):
    """The command that --print-options describes, or None if the text is something else."""
    found = {}
    first = None
    for line in text.split('\n'):
        fields = line.split('\t')
        path = tuple(fields[1].split(' ')) if len(fields) > 1 else ()
        if fields[0] == 'command' and len(fields) == 4:
            made = Command(list(path), fields[3], fields[2] == 'passes', fields[2] == 'anywhere')
            found[path] = made
            if first is None:
                first = made
            else:
                found[path[:-1]].below.append(made)
        elif fields[0] in ('option', 'argument') and len(fields) == 8:
            _, _, names, value, words, default, several, about = fields
            option = Option(names.split(',') if fields[0] == 'option' else [names], value,
                            words.split('|') if words else [], default, several == 'several', about)
            option.names = [name.lstrip('!') for name in option.names]
            (found[path].options if fields[0] == 'option' else found[path].arguments).append(option)
        else:
            return None
    return first


ROW = re.compile(r'  (-\S.*?)(?:\s{2,}(\S.*))?$')


def of_help(name, text):
    """The command that --help describes, with a row for each option and its text beside or below."""
    first, _, rest = text.partition('\n')
    made = Command([name], first.partition(': ')[2] if first.startswith(name + ':') else first, passes=True,
                   help=rest)
    for line in rest.split('\n'):
        row = ROW.match(line)
        if row:
            made.options.append(option_of(row.group(1), row.group(2) or ''))
        elif made.options and re.match(r' {8,}\S', line):
            made.options[-1].about = (made.options[-1].about + ' ' + line.strip()).strip()
    return made


def option_of(words, about):
    """'-n, -np N' and '--bind core|none'."""
    names, values = [], []
    for part in words.split(','):
        pieces = part.split()
        if pieces and pieces[0].startswith('-'):
            names.append(pieces[0].partition('=')[0].partition('[')[0])
            values += pieces[1:]
        else:
            values += pieces
    value = ' '.join(values)
    return Option(names, value, value.split('|') if re.fullmatch(r'[a-z]+(\|[a-z]+)+', value) else [], '', False,
                  about)


def read(command):
    """The command at this path, or None if it describes nothing here."""
    text = output(command, '--print-options')
    made = of_rows(text) if text else None
    if made is None:
        text = output(command, '--help')
        made = of_help(pathlib.Path(command).name, text) if text else None
    return made
