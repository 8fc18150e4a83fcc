"""Indexes that servers hold: what all kinds of servers share."""
