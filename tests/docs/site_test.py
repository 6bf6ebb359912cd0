#!/usr/bin/env python3
"""The documentation as a site: it builds without a complaint, its navigation has every page, no link or anchor in
it is dead, it takes nothing from other hosts, and the links of README files lead to something.

  site_test.py SOURCE
"""
import html.parser
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse

SOURCE = os.path.abspath(sys.argv[1])


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.loaded, self.text = [], set(), [], []
        self.in_code = 0
        with open(path, encoding='utf-8') as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(filter(None, (attrs.get('id'), attrs.get('name') if tag == 'a' else None)))
        if tag == 'a' and attrs.get('href'):
            self.links.append(attrs['href'])
        elif attrs.get('src') or (tag == 'link' and attrs.get('href')):
            self.loaded.append(attrs.get('src') or attrs['href'])
        self.in_code += tag in ('pre', 'code', 'script')

    def handle_endtag(self, tag):
        self.in_code -= tag in ('pre', 'code', 'script')

    def handle_data(self, data):
        if not self.in_code:
            self.text.append(data)


def is_outside(link):
    return bool(urllib.parse.urlsplit(link).scheme)


def check_site(site):
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(site) for name in names
             if name.endswith('.html') and name not in ('404.html', 'search.html')]
    pages = {path: Page(path) for path in paths}

    def target(path, link):
        """The file and the anchor that a link on this page names."""
        parts = urllib.parse.urlsplit(link)
        file = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path))) \
            if parts.path else path
        return os.path.join(file, 'index.html') if os.path.isdir(file) else file, urllib.parse.unquote(parts.fragment)

    wrong = []
    for path, page in pages.items():
        name = os.path.relpath(path, site)
        for link in page.links:
            if is_outside(link):
                continue
            file, anchor = target(path, link)
            if not os.path.exists(file):
                wrong.append(f'{name}: dead link {link}')
            elif anchor and file in pages and anchor not in pages[file].anchors:
                wrong.append(f'{name}: no such anchor: {link}')
        wrong += [f'{name}: takes {link} from elsewhere' for link in page.loaded
                  if link.startswith('//') or urllib.parse.urlsplit(link).scheme in ('http', 'https')]
        # Lists and tables that Markdown took for text.
        text = ''.join(page.text)
        wrong += [f'{name}: shown as text: {line}' for line in re.findall(r'^(?:[-*] .*|\|.*\|)$', text, re.MULTILINE)]
        wrong += [f'{name}: shown as text: {word}' for word in re.findall(r'`[^`]+`|\]\([^)]*\)', text)]
    # The navigation is what all pages link to.
    reached = set.intersection(*({target(path, link)[0] for link in page.links if not is_outside(link)}
                                 for path, page in pages.items()))
    for path in paths:
        if path not in reached and path != os.path.join(site, 'index.html'):
            wrong.append(f'{os.path.relpath(path, site)}: mkdocs.yml has no way to it: add it to nav')
    return paths, wrong


def anchors_of(path):
    """As GitHub makes them."""
    with open(path, encoding='utf-8') as file:
        heads = re.findall(r'^#+ (.*)$', re.sub(r'^```.*?^```', '', file.read(), flags=re.MULTILINE | re.DOTALL),
                           re.MULTILINE)
    return {re.sub(r'[^\w -]', '', head.lower()).replace(' ', '-') for head in heads}


def check_readmes():
    """Links of the pages that are read in the tree."""
    wrong = []
    for folder, folders, names in os.walk(SOURCE):
        folders[:] = [name for name in folders if not name.startswith(('.', 'build'))]
        for name in names:
            if not name.endswith('.md'):
                continue
            page = os.path.join(folder, name)
            with open(page, encoding='utf-8') as file:
                text = re.sub(r'^```.*?^```|^ {4}.*?$|`[^`\n]*`', '', file.read(), flags=re.MULTILINE | re.DOTALL)
            for link in re.findall(r'\]\(([^)\s]+)\)', text):
                if is_outside(link):
                    continue
                path, _, anchor = link.partition('#')
                file = os.path.normpath(os.path.join(folder, path)) if path else page
                where = os.path.relpath(page, SOURCE)
                if not os.path.exists(file):
                    wrong.append(f'{where}: dead link {link}')
                elif anchor and file.endswith('.md') and anchor not in anchors_of(file):
                    wrong.append(f'{where}: no such anchor: {link}')
    return wrong


def main():
    wrong = check_readmes()
    with tempfile.TemporaryDirectory(prefix='weft-site-') as folder:
        site = os.path.join(folder, 'site')
        done = subprocess.run([os.path.join(SOURCE, 'scripts', 'site'), '--out', site], capture_output=True,
                              text=True, timeout=200, check=False)
        if 'mkdocs is not installed' in done.stderr:
            print('\n'.join(wrong))
            print('skipped: mkdocs is not installed')
            return 1 if wrong else 77
        if done.returncode:
            print(done.stdout + done.stderr)
            return 1
        paths, more = check_site(site)
        wrong += more
    print('\n'.join(dict.fromkeys(wrong)) if wrong else f'{len(paths)} pages, no dead link')
    return 1 if wrong else 0


sys.exit(main())
