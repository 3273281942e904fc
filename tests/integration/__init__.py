"""Real node processes on real disks, used, hurt and judged from outside."""
