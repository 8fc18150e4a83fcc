"""Query encoders that are learnt from an index alone."""
