"""The look of a page: light or dark as the reader's system is, and legible on a telephone."""
import html

STYLE = """
:root {
  color-scheme: light dark;
  --surface: #fcfcfb; --raised: #ffffff; --text: #0b0b0b; --text-muted: #5a5955;
  --axis: #a8a7a0; --grid: #e4e3de; --line: #e1e0d9; --good: #0a6b3d; --bad: #b3261e;
  --ahead: #23855a; --level: #c9c7bd; --behind: #c2410c; --unsteady: #efeee9; --on-map: #ffffff;
  --series-0: #2a78d6; --series-1: #d9541e; --series-2: #12875a; --series-3: #7a5bd0;
  --series-4: #a06a00; --series-5: #b0317b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --surface: #161615; --raised: #1f1f1d; --text: #f4f3ee; --text-muted: #b4b2a8;
    --axis: #6a6962; --grid: #33322f; --line: #383734; --good: #6cd39b; --bad: #ff8a7d;
    --ahead: #24794d; --level: #56554f; --behind: #b8461a; --unsteady: #2a2a27; --on-map: #ffffff;
    --series-0: #5aa2f2; --series-1: #f08a55; --series-2: #35b983; --series-3: #a993f0;
    --series-4: #d9a13c; --series-5: #e87ab9;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--surface); color: var(--text);
       font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 8px 0 4px; }
h2 { font-size: 21px; margin: 44px 0 4px; }
h2.operation { font-size: 18px; margin: 30px 0 0; }
h3 { font-size: 16px; margin: 0; }
p { max-width: 76ch; margin: 6px 0; }
p.lead { font-size: 18px; margin-top: 14px; }
a { color: var(--series-0); }
.muted { color: var(--text-muted); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 22px; padding: 10px 0; font-size: 15px; }
.legend.above { position: sticky; top: 0; z-index: 1; margin-top: 14px; background: var(--surface);
                border-bottom: 1px solid var(--line); }
.legend span { display: inline-flex; align-items: center; gap: 7px; }
.legend svg { width: 30px; height: 14px; }
.grid { display: grid; gap: 18px; margin-top: 14px;
        grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); }
.grid.wide { grid-template-columns: repeat(auto-fill, minmax(min(100%, 460px), 1fr)); }
figure { margin: 0; padding: 14px 14px 10px; background: var(--raised);
         border: 1px solid var(--line); border-radius: 8px; min-width: 0; }
figure.alone { max-width: 640px; margin: 14px 0; }
figcaption { font-size: 14px; color: var(--text-muted); margin-bottom: 6px; }
figure svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { font-size: 13px; fill: var(--text-muted); }
.point circle { fill: transparent; }
.point .tip { visibility: hidden; fill: var(--text); font-weight: 600; stroke: var(--raised);
              stroke-width: 5px; stroke-linejoin: round; paint-order: stroke; pointer-events: none; }
.point:hover .tip, .point:focus .tip { visibility: visible; }
details { margin-top: 6px; font-size: 14px; }
summary { cursor: pointer; color: var(--text-muted); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th { font-weight: 600; }
td.text, th.text { text-align: left; white-space: normal; }
.faster { color: var(--good); font-weight: 600; }
.slower { color: var(--bad); font-weight: 600; }
table.map { margin-top: 10px; }
table.map th, table.map td { border: 0; padding: 0; }
table.map th { font-weight: 400; font-size: 13px; }
table.map tbody th { text-align: left; padding-right: 10px; position: sticky; left: 0;
                     background: var(--surface); }
table.map thead th { text-align: left; padding-left: 2px; color: var(--text-muted); }
table.map td { width: 28px; min-width: 19px; height: 24px; text-align: center; font-size: 13px;
               border: 1px solid var(--surface); }
td.ahead, .key.ahead { background: var(--ahead); color: var(--on-map); }
td.level, .key.level { background: var(--level); color: var(--text); }
td.behind, .key.behind { background: var(--behind); color: var(--on-map); }
td.unsteady, .key.unsteady { background: var(--unsteady); color: var(--text-muted); }
.legend .key { min-width: 24px; justify-content: center; font-size: 13px; }
.pictured { display: flex; flex-wrap: wrap; gap: 20px; align-items: flex-start; margin-top: 14px; }
.pictured img { width: 300px; max-width: 100%; border: 1px solid var(--line); border-radius: 8px; }
code { font-size: 13px; overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: 13px; padding: 12px; background: var(--raised);
      border: 1px solid var(--line); border-radius: 8px; }
@media (max-width: 600px) {
  main { padding: 12px 12px 48px; }
  h1 { font-size: 23px; }
  p.lead { font-size: 16px; }
  table.map tbody th { padding-right: 4px; font-size: 11px; line-height: 1.1; white-space: normal;
                       min-width: 84px; }
  table.map thead th { font-size: 10px; white-space: nowrap; }
  table.map td { width: auto; min-width: 10px; height: 26px; font-size: 10px; border-width: 1px 0; }
}
"""


def document(title, content):
    """The whole page; `content` is HTML, the title is text."""
    return ('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n'
            f'{content}\n</main>\n</body>\n</html>\n')
