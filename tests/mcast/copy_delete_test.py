#!/usr/bin/env python3
"""weft-copy --delete deletes what is not at the source, and nothing that could not be read there; what
is in the way is replaced with it, and named without it; receivers that share a folder help each other;
what a login says is no answer: copy_delete_test.py WEFT_COPY [READ_FAULTS.so]"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

COPY, FAULTS = None, None
NOBODY = 65534


class CopyDelete(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        # Of this machine's disks as root sees them: /proc names folders by their real path.
        self.folder = os.path.realpath(place.name)
        os.chmod(self.folder, 0o755)
        self.source = self.at('tree')
        for path, text in (('private/thesis', 'valuable'), ('private/sub/deep', 'too'),
                           ('file', 'a'), ('other', 'b'), ('z', 'c')):
            self.write('tree/' + path, text)
        self.write('tree/long/x', 'd')

    def at(self, path):
        return os.path.join(self.folder, path)

    def write(self, path, text):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), 'w', encoding='ascii') as file:
            file.write(text)

    def read(self, path):
        with open(self.at(path), encoding='ascii') as file:
            return file.read()

    def copy(self, *more, hosts='h', expect=0, launch='env H={host}', user=None, **env):
        targets = ','.join(f'{host}:{self.at(host[0])}' for host in hosts.split(','))
        command = [COPY, self.source, '--hosts', targets, *more]
        if user is not None:
            command = ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups', *command]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                              env={**os.environ, 'WEFT_LAUNCH': launch, 'WEFT_FABRIC': 'shm', **env})
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def check_kept(self, out, *paths):
        """What could not be read is still there and named; the rest is as at the source."""
        self.assertIn('not copied: ', out)
        self.assertIn('has kept, on the hosts, what could not be read here and all below it', out)
        for path in paths:
            self.assertTrue(os.path.lexists(self.at('h/tree/' + path)), (path, out))
        self.assertFalse(os.path.exists(self.at('h/tree/extra')), out)

    def prepare(self):
        self.copy()
        self.write('h/tree/extra', 'not at the source')

    @unittest.skipIf(os.geteuid() != 0, 'only root can become another user here')
    def test_permission(self):
        global COPY
        program = shutil.copy(COPY, self.at('weft-copy'))
        COPY, before = program, COPY
        self.addCleanup(lambda: globals().update(COPY=before))
        for top, _, files in os.walk(self.folder):
            for name in [top] + [os.path.join(top, name) for name in files]:
                os.chown(name, NOBODY, NOBODY)
        self.copy(user=NOBODY)
        self.write('h/tree/extra', 'x')
        os.chown(self.at('h/tree/extra'), NOBODY, NOBODY)
        os.chown(self.at('tree/private'), 0, 0)
        os.chmod(self.at('tree/private'), 0o700)
        os.chown(self.at('tree/file'), 0, 0)
        os.chmod(self.at('tree/file'), 0o600)
        out = self.copy('--delete', '--dry-run', user=NOBODY, expect=1)
        self.assertIn('tree/extra would be deleted', out)
        self.assertNotIn('private would', out)
        self.assertTrue(os.path.exists(self.at('h/tree/extra')))
        out = self.copy('--delete', user=NOBODY, expect=1)
        self.check_kept(out, 'private/thesis', 'private/sub/deep', 'file')
        self.assertIn('Permission denied', out)

    def test_other_kinds(self):
        self.prepare()
        os.unlink(self.at('tree/file'))
        os.mkfifo(self.at('tree/file'))
        out = self.copy('--delete', expect=1)
        self.check_kept(out, 'file', 'other')
        self.assertEqual(self.read('h/tree/file'), 'a')

    def test_broken_reads(self):
        if FAULTS is None:
            self.skipTest('a sanitizer wants to be loaded first')
        for kind, path, kept in (('stat', 'private', ['private/thesis', 'private/sub/deep']),
                                 ('stat', 'file', ['file']),
                                 ('gone', 'other', ['other']),
                                 ('list', 'private', ['private/thesis', 'private/sub/deep']),
                                 ('list', '', ['private/thesis', 'file', 'z', 'extra'])):
            with self.subTest(kind=kind, path=path):
                self.prepare()
                out = self.copy('--delete', expect=1, LD_PRELOAD=FAULTS,
                                READ_FAULT=f'{kind} {os.path.join(self.source, path).rstrip("/")}')
                if path:
                    self.check_kept(out, *kept)
                else:
                    for name in kept:
                        self.assertTrue(os.path.exists(self.at('h/tree/' + name)), (name, out))
        # A file that fails while it is sent keeps what is there.
        self.prepare()
        self.write('tree/other', 'changed')
        out = self.copy('--delete', expect=1, LD_PRELOAD=FAULTS, READ_FAULT='open ' + self.at('tree/other'))
        self.assertIn('tree/other: Input/output error', out)
        self.assertEqual(self.read('h/tree/other'), 'b')

    def test_long_names(self):
        self.prepare()
        self.write('h/tree/long/y', 'not at the source, as far as can be seen')
        here = os.getcwd()
        os.chdir(self.at('tree/long'))
        try:
            for _ in range(20):
                os.mkdir('n' * 250)
                os.chdir('n' * 250)
        finally:
            os.chdir(here)
        out = self.copy('--delete', expect=1)
        self.assertIn('File name too long', out)
        self.assertFalse(os.path.exists(self.at('h/tree/extra')), out)
        self.assertFalse(os.path.exists(self.at('h/tree/long/y')), out)

    def test_mount_point(self):
        """Nothing below a mount point at a receiver is deleted."""
        self.prepare()
        os.mkdir(self.at('h/tree/mounted'))
        script = (f'mount -t tmpfs none {self.at("h/tree/mounted")} && '
                  f'echo x > {self.at("h/tree/mounted")}/precious && '
                  f'{COPY} {self.source} --delete --hosts h:{self.at("h")}; status=$?; '
                  f'cat {self.at("h/tree/mounted")}/precious && exit $status')
        done = subprocess.run(['unshare', '--mount', 'sh', '-c', script], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={**os.environ, 'WEFT_LAUNCH': 'env H={host}', 'WEFT_FABRIC': 'shm'})
        if 'mount' in done.stderr and 'permission' in done.stderr.lower() or 'unshare:' in done.stderr:
            self.skipTest('no mount namespace can be made: ' + done.stderr.strip())
        self.assertIn('x', done.stdout.splitlines(), done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("tree/mounted: can't delete a mount point", done.stderr)
        self.assertFalse(os.path.exists(self.at('h/tree/extra')))

    def test_in_the_way(self):
        """A folder, a link or a pipe where something of another kind comes."""
        os.symlink('other', self.at('tree/link'))
        for deletes in (False, True):
            with self.subTest(deletes=deletes):
                shutil.rmtree(self.at('h'), ignore_errors=True)
                self.write('h/tree/file/inside', 'x')
                self.write('h/tree/link/inside', 'x')
                os.makedirs(self.at('h/tree/other'))
                self.write('elsewhere/keep', 'x')
                os.symlink(self.at('elsewhere'), self.at('h/tree/private'))
                os.mkfifo(self.at('h/tree/long'))
                out = self.copy(*(['--delete'] if deletes else []), expect=0 if deletes else 1)
                self.assertEqual(os.listdir(self.at('elsewhere')), ['keep'])
                self.assertEqual(self.read('h/tree/other'), 'b')  # was an empty folder
                if deletes:
                    self.assertEqual(self.read('h/tree/file'), 'a')
                    self.assertEqual(os.readlink(self.at('h/tree/link')), 'other')
                    self.assertEqual(self.read('h/tree/private/thesis'), 'valuable')
                    self.assertEqual(self.read('h/tree/long/x'), 'd')
                    continue
                for name, kind in (('file', 'a folder that is not empty exists in place of the file'),
                                   ('link', 'a folder that is not empty exists in place of the link'),
                                   ('private', 'a link exists in place of the folder'),
                                   ('long', 'a special file exists in place of the folder')):
                    self.assertIn(f'h: tree/{name}: {kind}; --delete replaces it', out)
                self.assertEqual(self.read('h/tree/file/inside'), 'x')

    def test_swapped(self):
        """What becomes a link or a pipe during the copy is not followed, and not waited for."""
        with open(self.at('tree/a_large_one'), 'wb') as file:
            file.write(b'x' * 30_000_000)
        self.write('secret', 'z')
        self.write('elsewhere/thesis', 'stolen!!')
        for path in ('tree/file', 'tree/other', 'tree/private/thesis', 'elsewhere/thesis'):
            shutil.copystat(self.at('secret'), self.at(path))
        with subprocess.Popen([COPY, self.source, '--hosts', f'h:{self.at("h")}', '--rate', '10'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, 'WEFT_LAUNCH': 'env H={host}', 'WEFT_FABRIC': 'shm'}) as copy:
            while not os.path.isdir(self.at('h/tree/private')):  # made once the list has come
                self.assertIsNone(copy.poll())
            for path in ('tree/file', 'tree/other'):
                os.unlink(self.at(path))
            os.symlink(self.at('secret'), self.at('tree/file'))
            os.mkfifo(self.at('tree/other'))
            os.rename(self.at('tree/private'), self.at('was_private'))
            os.symlink(self.at('elsewhere'), self.at('tree/private'))
            self.addCleanup(copy.kill)
            out = copy.communicate(timeout=60)[0]
        self.assertEqual(copy.returncode, 1, out)
        self.assertIn('tree/file: its path now leads through a link', out)
        self.assertIn('tree/other: it is no longer a file', out)
        self.assertIn('tree/private/thesis: its path now leads through a link', out)
        for path in ('h/tree/file', 'h/tree/other', 'h/tree/private/thesis'):
            self.assertFalse(os.path.exists(self.at(path)), path)

    def test_resume(self):
        """What has come of a large file that changes meanwhile is kept for a later run."""
        with open(self.at('tree/large'), 'wb') as file:
            file.write(b'x' * 20_000_000)
        with subprocess.Popen([COPY, self.source, '--hosts', f'h:{self.at("h")}', '--rate', '20',
                               '--resume', '--delete'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True,
                              env={**os.environ, 'WEFT_LAUNCH': 'env H={host}', 'WEFT_FABRIC': 'shm'}) as copy:
            self.addCleanup(copy.kill)
            while not os.path.isdir(self.at('h/tree/private')):  # made once the list has come
                self.assertIsNone(copy.poll())
            os.utime(self.at('tree/large'))
            out = copy.communicate(timeout=60)[0]
        self.assertEqual(copy.returncode, 1, out)
        self.assertIn('tree/large: it changed while it was copied', out)
        self.assertEqual(len([name for name in os.listdir(self.at('h/tree')) if name.startswith('.weft-copy')]), 1)
        self.copy('--resume', '--delete')
        self.assertFalse([name for name in os.listdir(self.at('h/tree')) if name.startswith('.weft-copy')])

    def test_dry_run(self):
        """A dry run makes nothing, and names what is in the way besides what is not at the source."""
        out = self.copy('--delete', '--dry-run')
        self.assertIn('tree/file', out)
        self.assertFalse(os.path.lexists(self.at('h')))
        self.write('h/tree/file/inside', 'x')
        os.makedirs(self.at('elsewhere'))
        os.symlink(self.at('elsewhere'), self.at('h/tree/private'))
        self.write('h/tree/extra', 'x')
        out = self.copy('--delete', '--dry-run')
        named = sorted(line for line in out.splitlines() if 'would be deleted' in line)
        self.assertEqual(named, [f'h: tree/{name} would be deleted' for name in ('extra', 'file', 'private')])
        self.assertEqual(self.read('h/tree/file/inside'), 'x')
        self.copy('--delete')
        self.assertEqual(self.read('h/tree/file'), 'a')

    def test_file_size_limit(self):
        """A file beyond the receiver's limit (ulimit -f) is an error that names it."""
        with open(os.path.join(self.source, 'large'), 'wb') as file:
            file.truncate(80 << 20)
        out = self.copy(expect=1, launch='prlimit --fsize=67108864:67108864 env H={host}')
        self.assertIn('large', out)
        self.assertIn('File too large', out)

    def test_names_with_line_ends(self):
        """A name is shown in one line, whatever it holds."""
        self.copy()
        self.write('h/tree/a\nh: other would be deleted\x1b[2J', 'x')
        out = self.copy('--delete', '--dry-run')
        named = [line for line in out.splitlines() if 'would be deleted' in line]
        self.assertEqual(named, ['h: tree/a\\x0ah: other would be deleted\\x1b[2J would be deleted'])

    def test_one_folder_for_all(self):
        """Hosts that share a folder, as a home on NFS, meet each other's files."""
        for i in range(40):
            self.write(f'tree/many/{i % 7}/f{i}', str(i) * 1000)
            os.symlink('f', self.at(f'tree/many/{i % 7}/l{i}'))
            os.link(self.at(f'tree/many/{i % 7}/f{i}'), self.at(f'tree/many/{i % 7}/h{i}'))
        self.write('tree/large', 'resumed' * 700_000)
        for more in ([], ['--delete'], ['--resume']):
            for _ in range(3):
                shutil.rmtree(self.at('s'), ignore_errors=True)
                if more:
                    self.write('s/tree/many/extra/e', 'x')
                self.copy(*more, hosts='s1,s2,s3,s4')
                done = subprocess.run(['diff', '-r', self.source, self.at('s/tree')],
                                      capture_output=True, text=True, check=False)
                wrong = [line for line in done.stdout.splitlines() if 'extra' not in line]
                self.assertEqual(wrong, [])
                self.assertFalse([name for _, _, names in os.walk(self.at('s')) for name in names
                                  if name.startswith('.weft-copy')])

    def test_banner(self):
        """A login that says something first, with and without the end of its last line."""
        script = self.at('login')
        self.write('login', '#!/bin/sh\nprintf "Welcome to {host}\\naddress of support: 1\\ndone 5 5\\nno end"\n'
                            'shift\nexec "$@"\n')
        os.chmod(script, 0o755)
        out = self.copy(launch=f'{script} {{host}}')
        self.assertNotIn('Welcome', out)
        self.assertEqual(self.read('h/tree/file'), 'a')
        # One that refuses is quoted.
        self.write('login', '#!/bin/sh\necho "This account is not available"\nexit 1\n')
        out = self.copy(launch=f'{script} {{host}}', expect=1)
        self.assertIn('could not be started; last output: This account is not available', out)
        # Nothing from another host begins a line of its own, or moves the cursor.
        self.write('login', '#!/bin/sh\nprintf "error %%1b[31mred%%0aweft-copy:%%20done\\n"\nexit 1\n')
        out = self.copy(launch=f'{script} {{host}}', expect=1)
        self.assertIn(r'\x1b[31mred\x0aweft-copy: done', out)
        self.assertNotIn('\x1b', out)


if __name__ == '__main__':
    COPY = sys.argv[1]
    FAULTS = sys.argv[2] if len(sys.argv) > 2 else None
    unittest.main(argv=sys.argv[:1], verbosity=2)
