"""The test list: one line a test, one case for each process count. Its form is in list.txt."""
import re
import shlex

KEYS = {'np', 'name', 'args', 'env', 'time', 'within', 'exit', 'out', 'err', 'wrap', 'launch',
        'tags', 'libraries', 'runargs', 'why'}
FINAL_LINE = 'as expected'


class Case:
    def __init__(self, program, np, keys):
        self.program = program
        self.np = np
        self.test = keys.get('name', [program])[0]
        self.name = f'{self.test}-{np}'
        self.args = [word for text in keys.get('args', []) for word in shlex.split(text)]
        self.run_args = [word for text in keys.get('runargs', []) for word in shlex.split(text)]
        self.env = dict(pair.split('=', 1) for pair in keys.get('env', []))
        self.deadline_s = float(keys.get('time', ['30'])[0])
        self.within_s = float(keys['within'][0]) if 'within' in keys else None
        self.exit = keys.get('exit', ['0'])[0]
        self.out = keys.get('out', [f'{FINAL_LINE}\n'])[0]
        self.err = keys.get('err', [])
        self.wrap = keys.get('wrap', [None])[0]
        self.launch = keys.get('launch', [None])[0]
        self.tags = set(tag for text in keys.get('tags', []) for tag in text.split(','))
        self.libraries = keys.get('libraries', ['weft,openmpi,mpich'])[0].split(',')
        self.source = None

    def judge(self, result, check_stderr):
        """Why the result is not what the list says, or None."""
        if result.status is None:
            return f'no end within {self.deadline_s:g} s'
        if self.exit == 'nonzero':
            if result.status == 0:
                return 'exit status 0, expected another'
        elif result.status != int(self.exit):
            return f'exit status {result.status}, expected {self.exit}'
        if self.out.startswith('/'):
            if not re.search(self.out.strip('/'), result.out):
                return f'standard output does not match {self.out}'
        elif result.out != self.out:
            return f'standard output is not exactly {self.out!r}'
        for pattern in self.err:
            if not re.search(pattern, result.err, re.MULTILINE):
                return f'standard error does not match /{pattern}/'
        if check_stderr and not self.err and result.err:
            return 'unexpected lines on standard error'
        if self.within_s is not None and result.seconds > self.within_s:
            return f'took {result.seconds:.2f} s, more than {self.within_s:g} s'
        if result.left:
            return 'left processes behind: ' + '; '.join(result.left)
        return None


def read(path):
    cases = []
    names = set()
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            words = shlex.split(line, comments=True)
            if not words:
                continue
            keys = {}
            for word in words[1:]:
                key, equals, value = word.partition('=')
                if not equals or key not in KEYS:
                    raise SystemExit(f'{path}:{number}: not a key=value this list knows: {word}')
                keys.setdefault(key, []).append(value)
            if 'np' not in keys:
                raise SystemExit(f'{path}:{number}: np= is missing')
            for np in keys['np'][0].split(','):
                case = Case(words[0], int(np), keys)
                if case.name in names:
                    raise SystemExit(f'{path}:{number}: a second {case.name}; give it a name=')
                names.add(case.name)
                cases.append(case)
    return cases
