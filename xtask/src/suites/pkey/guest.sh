#!/bin/busybox sh
# The init of the guest of `cargo xtask suite pkey`: what it finds it says in lines that begin with KEEPFS.
/bin/busybox --install -s /bin
export PATH=/bin RUST_BACKTRACE=1
# Where the processor has no keys the tests fail instead of skipping.
export KEEPFS_KEYS=must
mkdir -p /proc /sys /dev /run /tmp /mnt
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
insmod /fuse.ko

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

# All that the program of the store's tests has about the guard; those for which the keys are needed are among them.
guard_tests() {
    store --test-threads 1 guard:: > /tmp/tested 2>&1
    passed=$?
    cat /tmp/tested
    [ $passed = 0 ] && grep -q "keys_stop_a_store_through_either_mapping ... ok" /tmp/tested
}

write_files() {
    for n in $(seq 1 40); do
        mkdir "/mnt/$1$n" && echo "$1 $n" > "/mnt/$1$n/file" && mv "/mnt/$1$n/file" "/mnt/$1$n/moved" || return 1
    done
}

read_files() {
    for n in $(seq 1 40); do
        [ "$(cat "/mnt/$1$n/moved")" = "$1 $n" ] || return 1
    done
}

try "the processor has keys" grep -q -w ospke /proc/cpuinfo
try "tests of the guard" guard_tests
try "create" keepfs create /tmp/pool --size 64M --protect pcrc
try "mount" keepfs mount /tmp/pool /mnt -o guard=pkey,anchor=none
try "status tells the guard" sh -c "keepfs status /mnt | grep -q 'guard pkey'"
try "work" write_files first
kill -9 "$(keepfs status /mnt --json | sed -n 's/.*"server_pid": \([0-9]*\).*/\1/p')"
try "the next server has it" read_files first
try "set" keepfs set /mnt protect=pq
try "work on" write_files second
try "unmount" keepfs unmount /mnt
try "check" keepfs check --data /tmp/pool
try "mount again" keepfs mount /tmp/pool /mnt -o guard=pkey,anchor=none
try "read again" read_files first
try "read again, all" read_files second
try "unmount again" keepfs unmount /mnt
# Of each line the last number: columns that are too narrow for an emulator run into one another.
for guard in alias pkey mprotect; do
    door --trials 3 --guard "$guard" | sed -n "s/^crc  *8 .*\.[0-9] *\([0-9]*\.[0-9]\)$/KEEPFS figure $guard \1 ns/p"
done
echo "KEEPFS end"
poweroff -f
