//! Mutated and random requests on a file system that answers anything: never a panic, always a well-formed reply.

use crate::fake::{Bench, Fake, Rng};
use crate::requests::{Req, long, word};
use keepfs_fuse::protocol::Opcode;
use keepfs_fuse::{MountConfig, Outcome};
use std::sync::Mutex;

const ROUNDS: usize = 60_000;

fn hostile(seed: u64) -> Bench {
    let fake = Fake {
        hostile: Some(Mutex::new(Rng(seed))),
        ..Fake::default()
    };
    Bench::new(fake, &MountConfig::default())
}

/// A request of random operation whose body is random words, names and sizes that matter.
fn random_request(rng: &mut Rng) -> Vec<u8> {
    let op = Opcode::ALL[rng.below(Opcode::ALL.len())];
    let mut request = Req::new(op, rng.below(10) as u64);
    const TELLING: [u32; 12] = [
        0,
        1,
        2,
        3,
        8,
        100,
        4096,
        65_536,
        0x7fff_ffff,
        u32::MAX,
        0x8008_6601,
        0x4004_587d,
    ];
    for _ in 0..rng.below(24) {
        let word = if rng.below(3) == 0 {
            rng.next() as u32
        } else {
            TELLING[rng.below(TELLING.len())]
        };
        request = request.words(&[word]);
    }
    for _ in 0..rng.below(4) {
        request = match rng.below(3) {
            0 => request.name("exists"),
            1 => request.name(&"x".repeat(rng.below(400))),
            _ => request.raw(&vec![rng.next() as u8; rng.below(200)]),
        };
    }
    request.bytes()
}

/// Breaks some bytes; mostly keeps the length field right, so that what lies behind the check is reached.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.below(4) {
        match rng.below(4) {
            0 if !bytes.is_empty() => {
                let at = rng.below(bytes.len());
                bytes[at] ^= 1 << rng.below(8);
            }
            1 => bytes.truncate(rng.below(bytes.len() + 1)),
            2 => bytes.extend(vec![rng.next() as u8; rng.below(64)]),
            _ if bytes.len() >= 38 => bytes[36] = rng.next() as u8 & 7,
            _ => {}
        }
    }
    if bytes.len() >= 4 && rng.below(8) != 0 {
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
    }
}

fn check_reply(bench: &Bench, request: &[u8]) {
    let reply = bench.reply.bytes();
    assert_eq!(word(reply, 0) as usize, reply.len());
    assert_eq!(long(reply, 8), long(request, 8), "the answer is for another request");
    let error = word(reply, 4) as i32;
    assert!((-511..=0).contains(&error), "the kernel refuses error {error}");
    assert!(error == 0 || reply.len() == 16);
}

fn attack(seed: u64, mut next: impl FnMut(&mut Rng) -> Vec<u8>) {
    let mut rng = Rng(seed);
    let mut bench = hostile(seed ^ 0xdead_beef);
    for round in 0..ROUNDS {
        let request = next(&mut rng);
        if bench.handle(&request) == Outcome::Reply {
            check_reply(&bench, &request);
        }
        assert_eq!(bench.dispatcher.panics(), 0, "seed {seed} round {round}: {request:?}");
        bench.fake.log.lock().unwrap().clear();
    }
}

#[test]
fn random_bytes() {
    attack(1, |rng| {
        let mut bytes: Vec<u8> = (0..rng.below(300)).map(|_| rng.next() as u8).collect();
        if bytes.len() >= 40 {
            let len = bytes.len() as u32;
            bytes[..4].copy_from_slice(&len.to_ne_bytes());
            bytes[4..8].copy_from_slice(&(rng.below(60) as u32).to_ne_bytes());
            bytes[36..38].copy_from_slice(&0u16.to_ne_bytes());
        }
        bytes
    });
}

#[test]
fn mutated_requests() {
    for seed in [2, 3, 4] {
        attack(seed, |rng| {
            let mut bytes = random_request(rng);
            mutate(&mut bytes, rng);
            bytes
        });
    }
}

#[test]
fn entries_in_replies_match_lookup_counts() {
    let mut rng = Rng(5);
    let mut bench = hostile(6);
    for _ in 0..ROUNDS {
        bench.fake.counts.lock().unwrap().clear();
        let request = random_request(&mut rng);
        let op = Opcode::from_wire(word(&request, 4)).unwrap();
        let replied = bench.handle(&request) == Outcome::Reply;
        let good = replied && word(bench.reply.bytes(), 4) == 0;
        let entry = matches!(
            op,
            Opcode::Lookup
                | Opcode::Mknod
                | Opcode::Mkdir
                | Opcode::Symlink
                | Opcode::Create
                | Opcode::Tmpfile
                | Opcode::Link
        );
        if entry {
            let held: i64 = bench.fake.counts.lock().unwrap().values().sum();
            let sent = good && long(bench.reply.payload(), 0) != 0;
            assert_eq!(held, i64::from(sent), "{op:?}: lookups raised and entries sent differ");
        }
    }
}

#[test]
fn a_panic_below_is_answered() {
    let mut bench = Bench::polite();
    // Poisoning the fake's own lock makes its next call panic.
    let fake = bench.fake.clone();
    let _ = std::thread::spawn(move || {
        let _held = fake.log.lock().unwrap();
        panic!("planted");
    })
    .join();
    assert_eq!(
        bench.bad(Req::new(Opcode::Getattr, 5).words(&[0; 4]).bytes()),
        keepfs_vfs::Errno::EIO
    );
    assert_eq!(bench.dispatcher.panics(), 1);
    assert_eq!(
        bench.handle(&Req::new(Opcode::Forget, 5).words(&[1, 0]).bytes()),
        Outcome::NoReply
    );
    assert_eq!(bench.dispatcher.panics(), 2);
}
