"""A query to the best documents: the request, the stages, the searcher."""
