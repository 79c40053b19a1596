"""Container hosts to practise on: a Debian with its own systemd, journald, sshd, cgroup and network."""
