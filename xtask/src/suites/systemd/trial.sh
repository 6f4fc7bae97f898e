# In the container of `cargo xtask suite systemd`, when it is up: what it finds it says in lines that begin with KEEPFS.
try() {
    what=$1
    shift
    if "$@" > /tmp/said 2>&1; then
        echo "KEEPFS ok $what"
    else
        echo "KEEPFS FAILED $what ($?)"
        cat /tmp/said
    fi
}
is() { [ "$(systemctl show --property "$2" --value "$1")" = "$3" ]; }
server() { keepfs status "$1" --json | sed -n 's/.*"server_pid": \([0-9]*\).*/\1/p'; }

try "systemd is the first process" grep -q systemd /proc/1/comm
try "no unit failed" sh -c '[ -z "$(systemctl --failed --no-legend)" ]'
try "the line of fstab is a mount" is mnt-photos.mount ActiveState active
try "its source is the pool" is mnt-photos.mount What /var/lib/photos.pool
try "it waits for what holds the pool" sh -c 'systemctl show --property RequiresMountsFor mnt-photos.mount | grep -q /var/lib/photos.pool'
try "its type is what the kernel calls it" findmnt -t fuseblk.keepfs /mnt/photos
try "the unit is a mount" is mnt-music.mount ActiveState active
try "work" cp -a /usr/share/doc /mnt/photos/
try "scrub by the service" systemctl start keepfs-scrub@mnt-photos.service
try "it found nothing" is keepfs-scrub@mnt-photos.service Result success
try "it told the journal" sh -c 'journalctl -b -u keepfs-scrub@mnt-photos.service | grep -q "no errors found"'
try "the timer waits" is keepfs-scrub@mnt-photos.timer SubState waiting
try "the service of what is no mount is passed over" systemctl start keepfs-scrub@mnt-nothing.service
before=$(server /mnt/photos)
kill -9 "$before"
try "a dead server is replaced" sh -c "ls /mnt/photos/doc > /dev/null && [ '$before' != \"\$(keepfs status /mnt/photos --json | sed -n 's/.*\"server_pid\": \([0-9]*\).*/\1/p')\" ]"
try "and the unit goes on" is mnt-photos.mount ActiveState active
try "stop the unit" systemctl stop mnt-music.mount
try "the pool is closed" sh -c 'keepfs check /var/lib/music.pool | grep -q "closed properly"'
try "start it again" systemctl start mnt-music.mount
try "umount(8) ends the unit" sh -c 'umount /mnt/music && systemctl is-active mnt-music.mount | grep -q inactive'
try "start it once more" systemctl start mnt-music.mount
try "work there" cp -a /usr/share/doc /mnt/music/
# The shutdown meets open files.
sh -c 'exec 3> /mnt/music/open; echo written >&3; exec sleep 1000' &
try "nothing failed meanwhile" sh -c '[ -z "$(systemctl --failed --no-legend)" ]'
echo "KEEPFS end"
