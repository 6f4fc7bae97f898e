# In the fresh root of `cargo xtask suite deb`: what it finds it says in lines that begin with KEEPFS.
export DEBIAN_FRONTEND=noninteractive

try() {
    what=$1
    shift
    if "$@" > /said 2>&1; then
        echo "KEEPFS ok $what"
    else
        echo "KEEPFS FAILED $what ($?)"
        cat /said
    fi
}
not() { ! "$@"; }

# All that there is, but for what dpkg itself keeps, and what is done here.
everything() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/lib/dpkg -o -path /var/log \) -prune \
        -o -print | grep -v -e '^/said$' -e '^/before$' -e '^/after$' | sort
}
server() { keepfs status /mnt --json | sed -n 's/.*"server_pid": \([0-9]*\).*/\1/p'; }
served_by_installed() { [ "$(readlink "/proc/$(server)/exe")" = /usr/bin/keepfs ]; }
version_is() { [ "$(dpkg-query -W -f '${Version}' keepfs)" = "$1" ]; }
same_trees() { [ "$(cd /mnt/bin && find . -type f -exec md5sum {} + | sort)" = "$(cd /usr/bin && find . -type f -exec md5sum {} + | sort)" ]; }

everything > /before
try "install" dpkg -i /first.deb
try "nothing is missing or changed" sh -c '[ -z "$(dpkg -V keepfs)" ]'
try "all is configured" sh -c '[ -z "$(dpkg --audit)" ]'
try "manual page" test -s /usr/share/man/man8/keepfs.8.gz
try "rule of udev" grep -q '"/usr/bin/keepfs probe' /usr/lib/udev/rules.d/60-keepfs.rules
try "unit" grep -q '^ExecStart=/usr/bin/keepfs ' /usr/lib/systemd/system/keepfs-scrub@.service
try "mkfs" mkfs -t keepfs --size 256M /tmp/pool
try "fstab" sh -c 'echo "/tmp/pool /mnt keepfs noatime 0 0" > /etc/fstab'
try "mount" mount /mnt
try "work" cp -a /usr/bin /mnt/
exec 3> /mnt/open
echo before >&3
first=$(server)
try "upgrade" dpkg -i /second.deb
try "it is upgraded" version_is "$(dpkg-deb -f /second.deb Version)"
try "another server" sh -c "[ '$first' != '$(server)' ]"
try "of the program that came" served_by_installed
echo after >&3
exec 3>&-
try "the open file goes on" sh -c '[ "$(cat /mnt/open)" = "$(printf "before\nafter")" ]'
try "same files" same_trees
try "unmount" umount /mnt
try "fsck" fsck.keepfs /tmp/pool
try "mount again" mount /mnt
# What is asked of systemd, which is not here.
mkdir -p /run/systemd/system
printf '#!/bin/sh\ntest ! -e /usr/lib/systemd/system/keepfs-hooks.service || echo "$*" >> /tmp/asked\n' > /usr/local/bin/systemctl
chmod 755 /usr/local/bin/systemctl
try "remove under a mount" dpkg -r keepfs
cp /said /tmp/said
try "timers are stopped before their files go" grep -qx 'stop keepfs-scrub@\*.timer' /tmp/asked
rm -r /run/systemd/system /usr/local/bin/systemctl
try "it says so" grep -q '/mnt stays mounted' /tmp/said
try "the mount goes on" sh -c 'echo more > /mnt/more && cat /mnt/open'
try "unmount without the program" umount /mnt
mkdir -p /etc/systemd/system/timers.target.wants
ln -s /usr/lib/systemd/system/keepfs-scrub@.timer /etc/systemd/system/timers.target.wants/keepfs-scrub@mnt.timer
mkdir -p /var/lib/prometheus/node-exporter
touch /var/lib/prometheus/node-exporter/keepfs.prom
try "purge" dpkg -P keepfs
rmdir --ignore-fail-on-non-empty /etc/systemd/system/timers.target.wants
rmdir -p --ignore-fail-on-non-empty /var/lib/prometheus/node-exporter
everything > /after
try "nothing is left" diff /before /after
try "nor while it runs" not test -e /run/keepfs
try "the pool stays" test -s /tmp/pool
try "install after purge" dpkg -i /second.deb
try "check" keepfs check --data /tmp/pool
try "downgrade" dpkg -i /first.deb
try "purge at once" dpkg -P keepfs
everything > /after
try "nothing is left again" diff /before /after
echo "KEEPFS end"
