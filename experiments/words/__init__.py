"""Words of queries that passages do not have: typing errors and synonyms."""
