"""The memo: `view` puts a plan and a verdict into words, `render` lays the words out as Markdown, HTML and PDF."""
