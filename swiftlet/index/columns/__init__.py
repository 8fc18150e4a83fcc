"""The metadata of documents: columns, filters, facets and groups."""
