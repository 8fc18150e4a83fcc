"""Files as documents: what reads each kind, and folders of them."""
