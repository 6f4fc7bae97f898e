//! Damage in memory and at rest that nobody but a scrub looks at.

use crate::{Error, FormatOptions, Guard, Looked, Meaning, Protection, Ref, RestPlace, Store, StoreOptions};
use keepfs_format::superblock::{SLOTS, slot_page};
use keepfs_format::{Kind, MetaId, PAGE, Space};
use keepfs_frames::scratch::with_page;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use std::sync::Arc;

const NODES: u64 = 300;

struct World {
    device: Arc<RamDevice>,
    store: Arc<Store>,
    nodes: Vec<Ref>,
}

/// A pool with some hundred nodes, everything at rest.
fn world() -> World {
    let device = Arc::new(RamDevice::new(8192));
    let format = FormatOptions {
        protect: Protection::Pcrc,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 8 << 20,
        background: false,
        guard: Guard::Off,
        audit: crate::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).expect("open");
    let node = |n| {
        store.transact::<_, Error>(|t| {
            let node = t.new_node(Kind::Xattr, 0, n)?;
            t.put(node, 64, &n.to_le_bytes(), Meaning::Xattr)?;
            Ok(node)
        })
    };
    let nodes = (1..=NODES).map(|n| node(n).expect("node")).collect();
    store.checkpoint().expect("checkpoint");
    World { device, store, nodes }
}

impl World {
    fn scribble_at_rest(&self, id: MetaId, copy: usize) {
        let entry = self
            .store
            .home
            .flash()
            .locate(&self.store.frames, id)
            .expect("map")
            .expect("live");
        let page = PageNo([entry.first.get(), entry.second.get()][copy]);
        with_page(|bytes| {
            self.device.read(page, bytes).expect("read");
            bytes[1000] ^= 1;
            self.device.write(page, bytes, Class::Data).expect("write");
        });
    }

    fn scrub_rest(&self) -> Looked {
        let (mut looked, mut place) = (self.store.scrub_superblocks(), Some(RestPlace::START));
        while let Some(at) = place {
            let (more, next) = self.store.scrub_rest(at).expect("scrub");
            assert!(next.is_none_or(|next| next > at), "{at:?} {next:?}");
            looked += more;
            place = next;
        }
        looked
    }
}

/// S-19.1: a frame that nobody touches is found and mended; the others are what they were.
#[test]
fn frames_that_nobody_touches_are_mended() {
    let world = world();
    let frames = world.store.frames.arena.count();
    let clean: u64 = (0..frames).map(|frame| world.store.scrub_frame(frame).pages).sum();
    assert!(clean >= NODES, "{clean}");
    let frame = world.store.frames.cache.peek(world.nodes[77].id).expect("cached").frame;
    world.store.frames.arena.stray(frame, 500, b"stray");
    let mut all = Looked::default();
    (0..frames).for_each(|frame| all += world.store.scrub_frame(frame));
    assert_eq!((all.bad, all.mended), (1, 1));
    assert_eq!(world.store.stats().repaired, 1);
    assert_eq!(world.store.scrub_frame(frame).bad, 0);
}

/// S-19.2: which frames come first, which hold an inode's metadata, which hold an address.
#[test]
fn frames_are_chosen_by_age_owner_and_address() {
    let world = world();
    let node = world.nodes[5];
    let frame = world.store.frames.cache.peek(node.id).expect("cached").frame;
    assert_eq!(world.store.frames_of(&[node.owner].into()), vec![frame]);
    let at = world.store.strays().shown_address() + frame as usize * PAGE + 17;
    assert_eq!(world.store.frames_at(at..at + 1), frame..frame + 1);
    assert_eq!(world.store.frames_at(at..at + PAGE), frame..frame + 2);
    assert!(world.store.frames_at(0..0).is_empty());
    world.store.frames.cache.slot(frame).seen.clear();
    let ages = world.store.frames_by_age();
    assert_eq!(ages.len(), world.store.frames.arena.count() as usize);
    let place = ages.iter().position(|f| *f == frame).expect("all frames");
    let first_verified = ages
        .iter()
        .position(|f| world.store.frames.cache.slot(*f).seen.at() != 0);
    assert!(first_verified.is_none_or(|first| place < first));
}

/// S-19.3: either copy of a metablock, of a map page, and of a superblock; the next checkpoint makes it good.
#[test]
fn bad_copies_are_found_and_written_anew() {
    let world = world();
    let pristine = world.scrub_rest();
    assert_eq!((pristine.bad, pristine.mended), (0, 0));
    assert!(pristine.pages >= 2 * NODES, "{pristine:?}");
    let victims = [
        (world.nodes[3].id, 0),
        (world.nodes[250].id, 1),
        (MetaId::map(Space::Nodes, 0, 1), 1),
        (MetaId::map(Space::Nodes, 1, 0), 0),
        (MetaId::new(Space::Pages, 0), 0),
        (MetaId::new(Space::Homes, 0), 1),
    ];
    victims.iter().for_each(|(id, copy)| world.scribble_at_rest(*id, *copy));
    world.store.drop_clean_frames();
    let found = world.scrub_rest();
    assert_eq!((found.bad, found.mended), (6, 6));
    assert!(world.store.has_copies_to_write());
    world.store.checkpoint().expect("checkpoint");
    assert_eq!(world.scrub_rest().bad, 0);
    assert!(world.store.fault().is_none());
}

/// S-19.4: a page of the log that a recovery would read is found, whichever it is, and nobody needs it then; no other page counts.
#[test]
fn pages_of_the_log_are_looked_at_while_somebody_needs_them() {
    let world = world();
    let log = world.store.pool().log;
    let ruin = |page| {
        world
            .device
            .write(PageNo(page), &[7; PAGE], Class::Plog)
            .expect("write")
    };
    let scrub = || world.store.scrub_log().expect("scrub");
    (log.start..log.start + log.pages).for_each(ruin);
    assert_eq!(scrub(), Looked::default());
    for bad in 0..3 {
        let first = world.store.home.flash().log.end.lock().head.sequence;
        for node in &world.nodes[..3] {
            let change = |t: &mut crate::Txn<'_>| Ok(t.put(*node, 64, &[bad; 8], Meaning::Xattr)?);
            world.store.transact::<_, Error>(change).expect("change");
            world.store.sync().expect("sync");
        }
        let whole = scrub();
        assert_eq!((whole.pages, whole.bad), (3, 0));
        ruin(log.page(first + u64::from(bad)));
        let found = scrub();
        assert_eq!((found.pages, found.bad, found.mended), (3, 1, 1), "{bad}");
        assert_eq!(scrub().bad, 0);
    }
}

/// Both copies bad: told as lost unless the arena has it, which then makes it good again.
#[test]
fn both_copies_bad_is_a_loss_unless_memory_has_it() {
    let world = world();
    let kept = world.nodes[9].id;
    (0..2).for_each(|copy| world.scribble_at_rest(kept, copy));
    let found = world.scrub_rest();
    assert_eq!((found.bad, found.lost()), (2, 0));
    world.store.checkpoint().expect("checkpoint");
    assert_eq!(world.scrub_rest().bad, 0);

    (0..2).for_each(|copy| world.scribble_at_rest(kept, copy));
    world.store.drop_clean_frames();
    let found = world.scrub_rest();
    assert_eq!((found.bad, found.lost()), (2, 2));
    world.store.checkpoint().expect("a checkpoint goes on without it");
}

/// S-19.3: the superblock in force and its copy.
#[test]
fn a_bad_superblock_copy_is_found() {
    let world = world();
    let in_force = world
        .store
        .home
        .flash()
        .superblock_in_force(
            &world.store.frames,
            &mut world.store.home.flash().checkpoints.keeper.lock(),
        )
        .expect("right");
    let generation = in_force.generation.get();
    let slot = 2 + generation as usize % 2;
    assert!(slot < SLOTS);
    let page = PageNo(slot_page(slot, world.store.pool().pages));
    world.device.write(page, &[7; PAGE], Class::Superblock).expect("write");
    assert_eq!(
        world.store.scrub_superblocks(),
        Looked {
            pages: 2,
            bad: 1,
            mended: 1
        }
    );
    world.store.checkpoint().expect("checkpoint");
    assert_eq!(world.store.scrub_superblocks().bad, 0);
}

/// S-18.5, S-19.3: what a scrub finds at rest is in the history, with a verdict; a page with sectors of two writes is told
/// as torn, one that another metablock stands in whole as misdirected, one that it stands in for the most part as neither
/// (S-15.15): not the whole of it lay there.
#[test]
fn what_is_found_at_rest_is_remembered() {
    let world = world();
    let pages = |id: MetaId| {
        let entry = world
            .store
            .home
            .flash()
            .locate(&world.store.frames, id)
            .expect("map")
            .expect("live");
        [entry.first.get(), entry.second.get()].map(PageNo)
    };
    let page = |at: PageNo| {
        let mut bytes = [0; PAGE];
        world.device.read(at, &mut bytes).expect("read");
        bytes
    };
    let (torn, other, flipped) = (world.nodes[20].id, world.nodes[40].id, world.nodes[60].id);
    let (misdirected, mostly) = (world.nodes[80].id, world.nodes[90].id);
    world
        .store
        .transact::<_, Error>(|t| {
            t.put(world.nodes[20], 2000, &[7; 900], Meaning::Xattr)?;
            // More than a name in the header tells its first sector from that of the torn one.
            Ok(t.put(world.nodes[40], 100, &[9; 300], Meaning::Xattr)?)
        })
        .expect("put");
    world.store.checkpoint().expect("checkpoint");
    let mut bytes = page(pages(torn)[1]);
    bytes[..512].copy_from_slice(&page(pages(other)[0])[..512]);
    world.device.write(pages(torn)[1], &bytes, Class::Data).expect("write");
    let whole = page(pages(other)[0]);
    world
        .device
        .write(pages(misdirected)[0], &whole, Class::Data)
        .expect("write");
    let mut most = whole;
    most[4000..4090].fill(0x5a);
    world.device.write(pages(mostly)[0], &most, Class::Data).expect("write");
    world.scribble_at_rest(flipped, 0);
    // From here on only the map entry knows what lay there whole.
    world
        .store
        .transact::<_, Error>(|t| Ok(t.put(world.nodes[40], 100, &[8; 300], Meaning::Xattr)?))
        .expect("put");
    let looked = world.scrub_rest();
    assert_eq!((looked.bad, looked.mended), (4, 4));
    let events = world.store.history().events(0);
    let verdict = |id: MetaId| {
        let of: Vec<_> = events.iter().filter(|e| (e.place, e.id) == (2, id.0)).collect();
        assert_eq!(of.len(), 1, "{events:?}");
        (of[0].at, of[0].verdict, of[0].done)
    };
    assert_eq!(verdict(torn), (1, 7, 5));
    assert_eq!(verdict(misdirected), (0, 6, 5));
    assert_eq!(verdict(mostly), (0, 10, 5));
    assert_eq!(verdict(flipped), (0, 1, 5));
    world.store.checkpoint().expect("checkpoint");
    assert_eq!(world.scrub_rest().bad, 0);
}
