//! Each rule of a claim by itself, and machines that claim one pool side by side, in many orders of events (S-2.21, S-2.22, S-2.23).

use super::*;
use crate::mmp::block::{page, unowned};
use keepfs_format::mmp::{FREE, OFF};

const POOL: PoolId = PoolId(*b"a pool of a test");

fn who(number: u8) -> Who {
    Who {
        nonce: [number; 16],
        boot: [number; 16],
        host: format!("host{number}"),
        dir: b"/mnt".to_vec(),
        lock: [0; 2],
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn free() -> Page {
    page(&unowned(POOL, FREE, 1, 7))
}

/// What `number` left when it died.
fn left(number: u8) -> Page {
    page(&block::owned(POOL, &who(number), 1, 7, ms(0)))
}

fn written(next: Next) -> Page {
    match next {
        Next::Write(page) => *page,
        other => panic!("{other:?}"),
    }
}

fn held(next: Next) -> Hold {
    match next {
        Next::Held(hold) => *hold,
        other => panic!("{other:?}"),
    }
}

/// A claim of a free pool that is had, at three seconds.
fn had() -> (Hold, Page) {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    let ours = written(claim.seen(ms(2000), ms(2010), &free()));
    assert_eq!(claim.wrote(ms(2010), ms(2020)), Next::Look(ms(2520)));
    (held(claim.seen(ms(2520), ms(2530), &ours)), ours)
}

#[test]
fn a_free_pool_is_had_when_the_claim_still_stands_after_a_while() {
    let (hold, ours) = had();
    assert_eq!(hold.until(), ms(4010));
    assert_eq!(page(&hold.block), ours);
    let Seen::Used(block) = block::read(&ours, POOL) else {
        panic!()
    };
    assert_eq!(
        (block::text(&block.host), block::text(&block.dir)),
        ("host1".into(), "/mnt".into())
    );
}

#[test]
fn of_two_claims_the_later_one_stands() {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    written(claim.seen(ms(0), ms(1), &free()));
    claim.wrote(ms(1), ms(2));
    let said = claim.seen(ms(502), ms(503), &left(2));
    assert!(matches!(said, Next::Refused(Refusal::Other(Some(by))) if block::text(&by.host) == "host2"));
}

#[test]
fn a_slow_claim_waits_and_shows_that_it_lives() {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    let mut ours = written(claim.seen(ms(0), ms(1), &free()));
    let mut now = ms(300);
    let mut next = claim.wrote(ms(1), now);
    let mut writes = 0;
    loop {
        next = match next {
            Next::Look(at) => {
                assert!(at >= now);
                now = at;
                claim.seen(now, now, &ours)
            }
            Next::Write(page) => {
                ours = *page;
                writes += 1;
                claim.wrote(now, now)
            }
            Next::Held(hold) => {
                assert!(now >= ms(300) + watch(1) && hold.until() > now, "{now:?}");
                break;
            }
            other => panic!("{other:?}"),
        };
    }
    assert!(writes >= 3);
}

#[test]
fn what_another_left_is_watched_and_then_had() {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    assert_eq!(claim.seen(ms(0), ms(1), &left(2)), Next::Look(ms(4001)));
    let ours = written(claim.seen(ms(4001), ms(4002), &left(2)));
    claim.wrote(ms(4002), ms(4003));
    held(claim.seen(ms(4503), ms(4504), &ours));
}

#[test]
fn what_another_has_is_refused_with_its_name() {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    claim.seen(ms(0), ms(1), &left(2));
    let moved = page(&block::owned(POOL, &who(2), 1, 8, ms(9)));
    let said = claim.seen(ms(4001), ms(4002), &moved);
    assert!(matches!(said, Next::Refused(Refusal::Other(Some(by))) if block::text(&by.host) == "host2"));
}

#[test]
fn what_another_let_go_of_meanwhile_is_had() {
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    claim.seen(ms(0), ms(1), &left(2));
    written(claim.seen(ms(4001), ms(4002), &free()));
}

fn damaged_blocks() -> [Page; 3] {
    [[0; PAGE_LEN], [0xFF; PAGE_LEN], flipped()]
}

/// What the superblock says counts where the block says nothing.
#[test]
fn a_damaged_block_of_a_pool_that_is_not_protected_is_off() {
    let off = page(&unowned(POOL, OFF, INTERVAL_S_DEFAULT, 0));
    for damaged in damaged_blocks() {
        for why in [Why::Open, Why::Succeed] {
            let mut claim = Claim::new(who(1), POOL, false, why);
            assert!(matches!(claim.seen(ms(0), ms(1), &damaged), Next::Off(block) if page(&block) == off));
        }
        let mut claim = Claim::new(who(1), POOL, false, Why::Protect(3));
        written(claim.seen(ms(0), ms(1), &damaged));
    }
    // Where the block is whole it counts: so a pool was protected before superblocks said so.
    let mut claim = Claim::new(who(1), POOL, false, Why::Open);
    assert_eq!(claim.seen(ms(0), ms(1), &left(2)), Next::Look(ms(4001)));
    assert_eq!(claim.waits_until(), Some(ms(4001)));
}

#[test]
fn a_damaged_block_is_watched_like_anothers() {
    for damaged in damaged_blocks() {
        let mut claim = Claim::new(who(1), POOL, true, Why::Open);
        let until = ms(1) + watch(*INTERVAL_S.end());
        assert_eq!(claim.seen(ms(0), ms(1), &damaged), Next::Look(until));
        written(claim.seen(until, until, &damaged));
        let mut claim = Claim::new(who(1), POOL, true, Why::Open);
        claim.seen(ms(0), ms(1), &damaged);
        let mut moved = damaged;
        moved[40] ^= 1;
        assert_eq!(claim.seen(until, until, &moved), Next::Refused(Refusal::Other(None)));
    }
}

const PAGE_LEN: usize = keepfs_format::PAGE;

fn flipped() -> Page {
    let mut page = free();
    page[24] ^= 4;
    page
}

#[test]
fn another_pools_block_is_damage() {
    assert_eq!(block::read(&free(), PoolId([9; 16])), Seen::Damaged);
}

#[test]
fn nobody_is_asked_where_it_is_off() {
    let off = page(&unowned(POOL, OFF, 5, 0));
    let mut claim = Claim::new(who(1), POOL, true, Why::Open);
    assert!(matches!(claim.seen(ms(0), ms(1), &off), Next::Off(_)));
    let mut claim = Claim::new(who(1), POOL, true, Why::Protect(3));
    let Seen::Used(block) = block::read(&written(claim.seen(ms(0), ms(1), &off)), POOL) else {
        panic!()
    };
    assert_eq!(block.interval_s.get(), 3);
}

#[test]
fn whoever_has_the_lock_of_who_had_it_waits_for_nobody() {
    let with_lock = |number, boot, inode| Who {
        boot: [boot; 16],
        lock: [1, inode],
        ..who(number)
    };
    let first = |claimer| {
        let before = page(&block::owned(POOL, &with_lock(2, 2, 77), 1, 7, ms(0)));
        Claim::new(claimer, POOL, true, Why::Open).seen(ms(0), ms(1), &before)
    };
    written(first(with_lock(1, 2, 77)));
    assert!(matches!(first(with_lock(1, 2, 78)), Next::Look(_)), "another lock");
    assert!(
        matches!(first(with_lock(1, 3, 77)), Next::Look(_)),
        "another run of the machine"
    );
    let unlocked = page(&block::owned(POOL, &who(2), 1, 7, ms(0)));
    let mut claim = Claim::new(
        Who {
            boot: [2; 16],
            ..who(1)
        },
        POOL,
        true,
        Why::Open,
    );
    assert!(matches!(claim.seen(ms(0), ms(1), &unlocked), Next::Look(_)), "no lock");
}

#[test]
fn what_is_had_is_renewed_in_time_or_lost() {
    let (hold, ours) = had();
    let renew = || Claim::renew(who(1), POOL, hold.clone());
    let mut claim = renew();
    written(claim.seen(ms(3000), ms(3900), &ours));
    assert_eq!(held(claim.wrote(ms(3900), ms(4000))).until(), ms(5900));
    let mut claim = renew();
    written(claim.seen(ms(3000), ms(3001), &ours));
    assert_eq!(claim.wrote(ms(3001), ms(4100)), Next::Refused(Refusal::Late));
    assert!(matches!(renew().seen(ms(3000), ms(3001), &left(2)), Next::Refused(_)));
}

#[test]
fn who_slept_and_finds_its_own_block_claims_again() {
    let (hold, ours) = had();
    let mut claim = Claim::renew(who(1), POOL, hold.clone());
    let again = written(claim.seen(ms(90_000), ms(90_001), &ours));
    assert_eq!(claim.wrote(ms(90_001), ms(90_002)), Next::Look(ms(90_502)));
    held(claim.seen(ms(90_502), ms(90_503), &again));
    let mut claim = Claim::renew(who(1), POOL, hold);
    written(claim.seen(ms(90_000), ms(90_001), &ours));
    assert_eq!(claim.wrote(ms(90_001), ms(90_300)), Next::Refused(Refusal::Late));
}

#[test]
fn a_server_takes_the_place_of_its_like_and_of_nobody_else() {
    let succeed = |now, page: &Page| {
        let mut claim = Claim::new(who(1), POOL, true, Why::Succeed);
        match claim.seen(now, now, page) {
            Next::Write(_) => claim.wrote(now, now),
            next => next,
        }
    };
    held(succeed(ms(1999), &left(1)));
    assert_eq!(succeed(ms(2001), &left(1)), Next::Look(ms(2501)));
    assert!(matches!(succeed(ms(1), &left(2)), Next::Refused(_)));
    assert!(matches!(succeed(ms(1), &free()), Next::Refused(_)));
    assert!(matches!(succeed(ms(1), &page(&unowned(POOL, OFF, 5, 0))), Next::Off(_)));
}

mod orders;
