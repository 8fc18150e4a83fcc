"""Packages of XML in a zip archive as documents: Word, PowerPoint, Excel, OpenDocument and EPUB."""
