"""Encoders: loading, towers, the dual encoder, and the directories that training writes."""
