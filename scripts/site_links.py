"""A hook of mkdocs: where a page names another one in its text, as performance.md or docs/use/files.md, the
site has a link there."""
import os
import re

# Code, links and what they show, which stay as they are; then names of pages.
TOKEN = re.compile(r'(?P<code>```.*?\n```|(?:^|\n)(?: {4}[^\n]*\n?)+|`[^`\n]*`|\[[^\]]*\]\([^)]*\))|'
                   r'(?<![\w/.-])(?P<name>(?:[\w.-]+/)*[\w-]+\.md)\b', re.DOTALL)


def on_page_markdown(markdown, page, config, files):
    del config
    here = os.path.dirname(page.file.src_path)

    def link(match):
        name = match['name']
        if not name:
            return match[0]
        for target in (os.path.normpath(os.path.join(here, name)), name.removeprefix('docs/')):
            if files.get_file_from_path(target):
                return f'[{name}]({os.path.relpath(target, here)})'
        return name

    return TOKEN.sub(link, markdown)
