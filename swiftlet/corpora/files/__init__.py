"""Files as documents: text, Markdown, HTML, Word and PDF."""
