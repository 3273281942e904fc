"""Programs that are run with a released client, each in a process of its own; nothing imports them."""
