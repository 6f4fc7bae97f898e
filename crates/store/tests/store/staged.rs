//! One stray write into a staged page or its head, wherever and however it is met: nothing is lost (S-14.11; promise C-3).

use keepfs_codes::crc32c;
use keepfs_format::plog::Record;
use keepfs_format::{Kind, PAGE};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{Base, Equations, Error, FormatOptions, Meaning, Near, Purpose, Store, StoreOptions};
use std::sync::Arc;

const INO: u64 = 9;
const INDEX: u64 = 3;

fn options() -> StoreOptions {
    StoreOptions {
        arena_bytes: 2 << 20,
        tiny_arena: true,
        background: false,
        lasting: true,
        audit: Equations::NONE,
        ..StoreOptions::default()
    }
}

/// How the page came to be what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Story {
    /// Two synced tails, small.
    Tails,
    /// The same, reaching far into the page.
    Long,
    /// A synced tail over a page of the device.
    Based,
    /// The same with one on top that is in redo only.
    Redo,
    /// The same, over a page of the device, and nothing is synced.
    Fresh,
    /// A truncation and zeros between tails.
    Cut,
    /// Carried over a checkpoint, and changed since.
    Carried,
}

const STORIES: [Story; 7] = [
    Story::Tails,
    Story::Long,
    Story::Based,
    Story::Redo,
    Story::Fresh,
    Story::Cut,
    Story::Carried,
];

/// How a stray write is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Read,
    /// A part is overwritten by a transaction that does nothing else.
    Part,
    /// A part is overwritten, and another page staged.
    Together,
    /// The page is cut.
    Truncate,
    Checkpoint,
    Unmount,
    Scrub,
    /// The server dies, and another one takes its memory.
    Takeover,
}

const LOOKS: [Look; 8] = [
    Look::Read,
    Look::Part,
    Look::Together,
    Look::Truncate,
    Look::Checkpoint,
    Look::Unmount,
    Look::Scrub,
    Look::Takeover,
];

struct World {
    device: Arc<dyn Device>,
    store: Arc<Store>,
    right: [u8; PAGE],
}

impl World {
    fn of(story: Story) -> World {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        let store = Store::open(device.clone(), &options()).expect("open");
        let mut world = World {
            device,
            store,
            right: [0; PAGE],
        };
        world.tell(story);
        world
    }

    fn tell(&mut self, story: Story) {
        let far = if story == Story::Tails { 500 } else { 3500 };
        match story {
            Story::Based | Story::Redo | Story::Fresh => self.over_a_page(b"over a page of the device"),
            _ => self.stage(40, b"the first bytes of it"),
        }
        if story != Story::Fresh {
            self.store.sync().expect("sync");
        }
        self.stage(far, b"some more bytes");
        match story {
            Story::Redo | Story::Fresh => return,
            Story::Cut => {
                self.truncate(45);
                self.stage(60, b"behind the cut");
                self.change(|t| t.stage_zero(INO, INDEX, 4, None, 50, 14));
                self.right[50..64].fill(0);
            }
            Story::Carried => {
                self.store.checkpoint().expect("checkpoint");
                self.stage(2000, b"behind the checkpoint");
            }
            _ => {}
        }
        self.store.sync().expect("sync");
        if story == Story::Carried {
            self.stage(3000, b"and in redo");
        }
    }

    fn change(&self, change: impl Fn(&mut keepfs_store::Txn<'_>) -> Result<(), keepfs_store::Stop>) {
        self.store.transact::<_, Error>(|t| Ok(change(t)?)).expect("changed");
    }

    fn stage(&mut self, offset: usize, bytes: &[u8]) {
        self.change(|t| t.stage(INO, INDEX, 2, None, offset, bytes));
        self.right[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn truncate(&mut self, to: usize) {
        let size = INDEX * PAGE as u64 + to as u64;
        self.change(|t| {
            t.note(Record::Truncate { ino: INO, size });
            Ok(())
        });
        self.right[to..].fill(0);
    }

    fn over_a_page(&mut self, bytes: &[u8]) {
        let mut content = [0xA7; PAGE];
        let pages = self.store.reserve(1, Purpose::New, Near::Current).expect("a page");
        let run = pages.runs()[0];
        self.device
            .write(PageNo(run.start), &content, Class::Data)
            .expect("written");
        self.change(|t| t.use_pages(run));
        pages.allocated();
        self.store.sync().expect("sync");
        self.change(|t| {
            let base = Base {
                page: run.start,
                crc: crc32c::of(&content),
                content: &content,
            };
            t.stage(INO, INDEX, 1, Some(base), 100, bytes)
        });
        content[100..100 + bytes.len()].copy_from_slice(bytes);
        self.right = content;
    }

    /// Somebody writes eight bytes.
    fn stray(&self, at: usize) {
        for at in at..at + 8 {
            self.store.staging().xor_u8(at, 0xA5);
        }
    }

    fn meet(&mut self, look: Look) {
        match look {
            Look::Read => {}
            Look::Part => self.stage(70, b"a part"),
            Look::Together => {
                self.change(|t| {
                    t.stage(INO, INDEX, 5, None, 70, b"a part")?;
                    t.stage(INO, INDEX + 1, 5, None, 0, b"another page")
                });
                self.right[70..76].copy_from_slice(b"a part");
            }
            Look::Truncate => self.truncate(110),
            Look::Checkpoint => {
                self.store.checkpoint().expect("checkpoint");
                self.is_right("in memory");
                self.store.kill();
                self.store = Store::open(self.device.clone(), &options()).expect("open");
            }
            Look::Unmount => {
                self.store.close().expect("unmount");
                self.store = Store::open(self.device.clone(), &options()).expect("open");
            }
            Look::Scrub => {
                let looked = self.store.scrub_staged(INO, INDEX);
                assert_eq!((looked.pages, looked.bad, looked.mended), (1, 1, 1));
                let looked = self.store.scrub_staged(INO, INDEX);
                assert_eq!((looked.pages, looked.bad), (1, 0));
            }
            Look::Takeover => {
                let remains = self.store.remains().expect("it lasts");
                self.store.kill();
                let resumed = Store::resume(self.device.clone(), &options(), remains, |_| {});
                let (store, resumed) = resumed.expect("resumed");
                assert_eq!(resumed.lost, 0);
                self.store = store;
            }
        }
    }

    fn is_right(&self, what: &str) {
        let mut page = [0; PAGE];
        assert!(self.store.staged(INO, INDEX, &mut page).expect(what), "{what}");
        assert!(page == self.right, "{what}");
        assert_eq!(self.store.staged_lost(), []);
        assert!(self.store.fault().is_none());
    }

    /// How often it was told that the page was mended.
    fn told(&self) -> usize {
        let events = self.store.history().events(0);
        let own = |e: &&keepfs_format::history::Event| (e.place, e.id, e.at, e.done) == (8, INO, INDEX, 3);
        events.iter().filter(own).count()
    }
}

/// S-14.11, S-14.6, S-10.3: whatever byte of page and head is hit, however the page came to be, whoever meets it.
#[test]
fn one_stray_costs_nothing() {
    for story in STORIES {
        // Of the head its CRC, that and what is behind it, key, base, CRC of the page, stamps; of the page what records brought
        // and what not.
        for (is_head, offset) in [
            (true, 0),
            (true, 4),
            (true, 12),
            (true, 24),
            (true, 38),
            (true, 50),
            (false, 0),
            (false, 44),
            (false, 104),
            (false, 1016),
        ] {
            for look in LOOKS {
                let what = format!("{story:?}, {look:?}, head: {is_head}, at {offset}");
                let mut world = World::of(story);
                world.is_right(&what);
                let place = match is_head {
                    true => world.store.staged_head_place(INO, INDEX),
                    false => world.store.staged_place(INO, INDEX),
                };
                world.stray(place.expect("staged") + offset);
                world.meet(look);
                world.is_right(&what);
                if !matches!(look, Look::Checkpoint | Look::Unmount | Look::Takeover) {
                    assert_eq!(world.told(), 1, "{what}");
                }
            }
        }
    }
}

/// S-14.11, S-14.6: where the witness does not tell what was staged the page is lost, told, and a change of a part of it is an
/// error; the whole page heals it.
#[test]
fn what_the_witness_does_not_tell_is_lost() {
    for look in [Look::Read, Look::Part, Look::Together] {
        let mut world = World::of(Story::Based);
        let [page, head] = [
            world.store.staged_place(INO, INDEX),
            world.store.staged_head_place(INO, INDEX),
        ];
        world.stray(page.expect("staged"));
        world.stray(head.expect("staged"));
        let is_lost = |done: Result<(), Error>| matches!(done, Err(Error::Lost { ino: INO, index: INDEX }));
        let store = world.store.clone();
        let changed = match look {
            Look::Part => store.transact::<_, Error>(|t| Ok(t.stage(INO, INDEX, 5, None, 70, b"a part")?)),
            Look::Together => store.transact::<_, Error>(|t| {
                t.stage(INO, INDEX, 5, None, 70, b"a part")?;
                Ok(t.stage(INO, INDEX + 1, 5, None, 0, b"another page")?)
            }),
            _ => store.staged(INO, INDEX, &mut [0; PAGE]).map(|_| ()),
        };
        assert!(is_lost(changed), "{look:?}");
        assert_eq!(store.staged_lost(), [(INO, INDEX)]);
        assert_eq!(world.told(), 0);
        world.right.fill(7);
        world.stage(0, &[7; PAGE]);
        world.is_right("healed");
    }
}

/// S-14.11: of a page that nobody hit nothing is told.
#[test]
fn what_was_not_hit_is_told_nothing_of() {
    let mut world = World::of(Story::Carried);
    let node = world.store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, INO)?;
        t.put(r, 64, b"a neighbour", Meaning::Xattr)?;
        Ok(r)
    });
    node.expect("made");
    for look in LOOKS.into_iter().filter(|look| *look != Look::Scrub) {
        world.meet(look);
        world.is_right("nothing was hit");
        assert_eq!(world.told(), 0);
    }
}

/// S-14.10, S-19.1: a place of page 0 that was changed is stored anew at the next look, so that strays that come one by one do not
/// add up.
#[test]
fn strays_into_page_0_do_not_add_up() {
    let world = World::of(Story::Redo);
    let places = (0..6).map(|i| 8 * i).chain((0..7).map(|i| 64 + 16 * i));
    let count = places.clone().count();
    for place in places {
        for apart in [0, 2048, 0] {
            world.stray(place + apart);
            let looked = world.store.scrub_page_0();
            assert_eq!((looked.bad, looked.mended), (1, 1), "{place} {apart}");
            assert_eq!(world.store.scrub_page_0().bad, 0);
        }
    }
    let told = world.store.history().events(0);
    let told = told.iter().filter(|e| (e.place, e.done) == (7, 5)).count();
    assert_eq!(told, 3 * count);
    let remains = world.store.remains().expect("it lasts");
    world.store.kill();
    let (store, resumed) = Store::resume(world.device.clone(), &options(), remains, |_| {}).expect("resumed");
    assert_eq!((resumed.lost, resumed.findings.len()), (0, 0), "{:?}", resumed.findings);
    let world = World { store, ..world };
    world.is_right("behind the strays");
}
