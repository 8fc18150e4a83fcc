"""Reads corpora, queries and qrels: BEIR, JSONL, MS MARCO, TREC, folders of files."""
