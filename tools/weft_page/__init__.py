"""The pages that Weft's measurements are shown on: one look (theme), and charts (chart). They need nothing but
themselves: no script, no font and no picture from elsewhere."""
