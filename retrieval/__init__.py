"""What every stage of the pipeline shares and all that serving needs."""
