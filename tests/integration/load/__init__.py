"""Load on a cluster from processes of their own, with a record of everything that was asked and answered."""
