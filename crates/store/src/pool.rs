//! The pool as a superblock describes it: choosing, checking and making superblocks (SPEC section 2).

use crate::error::{Error, Stop};
use crate::log;
use crate::staged::StagedDamage;
use keepfs_codes::crc64;
use keepfs_format::map::CHUNK_PAGES_MAX;
use keepfs_format::plog::Run;
use keepfs_format::superblock::{self, CRC_OFFSET, PAGES_MAX, PAGES_MIN, Superblock};
use keepfs_format::{FromBytes, IntoBytes, PAGE, PoolId};
use keepfs_media::{Device, PageNo};

/// What never changes while a pool is open.
#[derive(Clone, Debug)]
pub struct Pool {
    /// Its identity.
    pub id: PoolId,
    /// The part of it in metablock headers.
    pub tag: u32,
    /// Device pages.
    pub pages: u64,
    /// Copies of metadata, 1 or 2.
    pub meta_copies: u32,
    /// Key of the name hash.
    pub name_seed: [u64; 2],
    /// Pages of a zone.
    pub zone_pages: u64,
    /// Preferred length of a chunk.
    pub chunk_pages: u32,
    /// The log region.
    pub log: log::Region,
    /// Label.
    pub label: String,
}

/// How a pool is made.
#[derive(Clone, Debug)]
pub struct FormatOptions {
    /// Label, at most 64 bytes.
    pub label: String,
    /// Copies of metadata on the device, 1 or 2.
    pub meta_copies: u32,
    /// Identity; random if `None`.
    pub id: Option<PoolId>,
    /// Key of the name hash; random if `None`.
    pub name_seed: Option<[u64; 2]>,
    /// Pages of the log; chosen by size if `None`.
    pub log_pages: Option<u64>,
    /// Pages of a zone; chosen by size if `None`.
    pub zone_pages: Option<u64>,
    /// Time of creation, seconds and nanoseconds since 1970.
    pub created: (i64, u32),
}

impl Default for FormatOptions {
    fn default() -> FormatOptions {
        FormatOptions {
            label: String::new(),
            meta_copies: 2,
            id: None,
            name_seed: None,
            log_pages: None,
            zone_pages: None,
            created: (0, 0),
        }
    }
}

/// Smallest log, pages.
const LOG_MIN: u64 = 32;
/// Largest log that is chosen by size, pages.
const LOG_MAX: u64 = 65_536;

impl Pool {
    /// The constants of a superblock that was checked.
    pub fn of(sb: &Superblock) -> Pool {
        let id = PoolId(sb.pool);
        let label = sb.label.split(|b| *b == 0).next().unwrap_or_default();
        Pool {
            id,
            tag: id.tag(),
            pages: sb.pages.get(),
            meta_copies: sb.meta_copies.get(),
            name_seed: sb.name_seed.map(|s| s.get()),
            zone_pages: sb.zone_pages.get(),
            chunk_pages: sb.chunk_pages.get(),
            log: log::Region {
                start: sb.log_start.get(),
                pages: sb.log_pages.get(),
                pool: id,
            },
            label: String::from_utf8_lossy(label).into_owned(),
        }
    }

    /// Number of zones.
    pub fn zones(&self) -> u64 {
        self.pages.div_ceil(self.zone_pages)
    }

    /// First page and length of a zone.
    pub fn zone(&self, number: u64) -> (u64, u32) {
        let start = number * self.zone_pages;
        (start, (self.pages.saturating_sub(start)).min(self.zone_pages) as u32)
    }
}

/// The superblock's bytes with its CRC.
pub fn superblock_bytes(sb: &Superblock) -> Box<[u8; PAGE]> {
    let mut bytes = Box::new([0; PAGE]);
    bytes.copy_from_slice(sb.as_bytes());
    let crc = crc64::full(&bytes[..CRC_OFFSET]);
    bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A superblock read from a slot, if it is one; `Err` says why not.
fn parse(bytes: &[u8; PAGE]) -> Result<Superblock, &'static str> {
    let sb = Superblock::read_from_bytes(bytes).map_err(|_| "it is too short")?;
    if sb.magic[..6] != superblock::MAGIC[..6] {
        return Err("it has no Keepfs superblock");
    }
    if sb.magic != superblock::MAGIC || sb.version.get() != superblock::VERSION {
        return Err("its format is of another version");
    }
    if crc64::full(&bytes[..CRC_OFFSET]) != sb.crc.get() {
        return Err("its superblock is damaged (wrong checksum)");
    }
    Ok(sb)
}

/// Why a superblock with a right checksum cannot be used; `None` if it can (C-8: never trusted).
fn refuse(sb: &Superblock, device_pages: u64) -> Option<String> {
    let pages = sb.pages.get();
    let log_end = sb.log_start.get().checked_add(sb.log_pages.get());
    let zone_pages = sb.zone_pages.get();
    let said = |what: &str| Some(format!("its superblock says {what}"));
    if !(PAGES_MIN..=PAGES_MAX).contains(&pages) {
        return said(&format!("it has {pages} pages"));
    }
    if pages > device_pages {
        return Some(format!(
            "it needs {pages} pages, but the device has only {device_pages}"
        ));
    }
    if sb.incompat.get() != 0 || sb.ro_compat.get() != 0 {
        return Some("it uses features that this version does not know".into());
    }
    if !(1..=2).contains(&sb.meta_copies.get()) {
        return said("an impossible number of metadata copies");
    }
    if sb.log_pages.get() < LOG_MIN || sb.log_start.get() == 0 || log_end.is_none_or(|e| e > pages) {
        return said("an impossible log region");
    }
    let log = sb.log_start.get()..log_end.unwrap_or_default();
    if (0..superblock::SLOTS).any(|slot| log.contains(&superblock::slot_page(slot, pages))) {
        return said("a log region over a superblock");
    }
    if !(16..=32_512).contains(&zone_pages) {
        return said("an impossible zone size");
    }
    let zones = pages.div_ceil(zone_pages);
    if sb.zone_current.get() >= zones || sb.zone_next.get() >= zones {
        return said("a zone that does not exist");
    }
    if !(1..=CHUNK_PAGES_MAX).contains(&sb.chunk_pages.get()) {
        return said("an impossible chunk size");
    }
    if sb.state.get() != superblock::CLEAN && sb.state.get() != superblock::OPEN {
        return said("an impossible state");
    }
    if sb.generation.get() >= u64::MAX / 2 || sb.log_seq.get() >= u64::MAX / 2 || sb.group.get() >= u64::MAX / 2 {
        return said("an impossible generation");
    }
    if sb.seq.get() >= u64::MAX / 2 || sb.incarnation.get() >= u64::MAX / 2 || sb.group.get() == 0 {
        return said("an impossible transaction number");
    }
    if sb.durable.get() >= u64::MAX / 2 || sb.created_nsec.get() >= 1_000_000_000 {
        return said("an impossible time or group");
    }
    let reserved = sb.reserved0.get() != 0 || sb.reserved1.iter().any(|b| *b != 0);
    if reserved || sb.roots[0] != superblock::Root::default() || sb.roots.iter().any(|r| r.reserved != [0; 7]) {
        return said("something in its reserved bytes");
    }
    if sb.roots.iter().any(|r| r.height > keepfs_format::map::HEIGHT_MAX) {
        return said("an impossible map");
    }
    None
}

/// The newest usable superblock (S-2.3).
pub fn choose(device: &dyn Device) -> Result<Superblock, Error> {
    let mut found: Vec<Superblock> = Vec::new();
    let mut why = "it has no Keepfs superblock";
    let mut sizes = vec![device.pages()];
    let mut page = [0; PAGE];
    let mut at = 0;
    while at < sizes.len() {
        for slot in 0..superblock::SLOTS {
            let number = superblock::slot_page(slot, sizes[at]);
            if number >= device.pages() || device.read(PageNo(number), &mut page).is_err() {
                continue;
            }
            match parse(&page) {
                Ok(sb) => {
                    // The device may be larger than the pool: the slots follow the pool's size.
                    if !sizes.contains(&sb.pages.get()) && sizes.len() < 4 {
                        sizes.push(sb.pages.get());
                    }
                    found.push(sb);
                }
                Err(e) if slot == 0 && at == 0 => why = e,
                Err(_) => {}
            }
        }
        at += 1;
    }
    let newest = found.iter().max_by_key(|sb| sb.generation.get()).copied();
    let newest = newest.ok_or_else(|| Error::BadPool(why.into()))?;
    if found
        .iter()
        .any(|sb| sb.generation == newest.generation && *sb != newest)
    {
        return Err(Error::BadPool(
            "two different superblocks have the same generation".into(),
        ));
    }
    match refuse(&newest, device.pages()) {
        Some(why) => Err(Error::BadPool(why)),
        None => Ok(newest),
    }
}

/// Makes the first superblock of a pool.
pub fn first_superblock(device: &dyn Device, o: &FormatOptions) -> Result<Superblock, Error> {
    let pages = device.pages().min(PAGES_MAX);
    if pages < PAGES_MIN {
        return Err(Error::BadPool(format!("a pool needs at least {} KiB", PAGES_MIN * 4)));
    }
    if o.label.len() > 64 || o.label.contains('\0') {
        return Err(Error::BadPool("a label has at most 64 bytes".into()));
    }
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|e| Error::Logic(format!("no random numbers: {e}")))?;
    let word = |i: usize| random[i..i + 8].try_into().map(u64::from_le_bytes).unwrap_or(1);
    let mut sb = Superblock::blank();
    sb.pool =
        o.id.map_or_else(|| random[..16].try_into().unwrap_or_default(), |id| id.0);
    sb.label[..o.label.len()].copy_from_slice(o.label.as_bytes());
    sb.meta_copies = o.meta_copies.clamp(1, 2).into();
    sb.pages = pages.into();
    sb.generation = 1.into();
    sb.incarnation = 1.into();
    sb.group = 1.into();
    sb.log_start = 1.into();
    sb.log_pages = o
        .log_pages
        .unwrap_or((pages / 32).clamp(LOG_MIN, LOG_MAX))
        .clamp(LOG_MIN, pages / 4 - 1)
        .into();
    sb.zone_pages = o.zone_pages.unwrap_or(pages / 8).clamp(16, 32_512).into();
    sb.chunk_pages = ((pages / 64).clamp(16, u64::from(CHUNK_PAGES_MAX)) as u32).into();
    sb.state = superblock::CLEAN.into();
    sb.name_seed = o.name_seed.unwrap_or([word(16), word(24)]).map(Into::into);
    sb.created_sec = o.created.0.into();
    sb.created_nsec = o.created.1.into();
    sb.zone_next = 1.into();
    Ok(sb)
}

/// Runs that the page bitmap of an empty pool has set: superblock slots and log (S-2.4).
pub fn fixed_runs(pool: &Pool) -> Vec<Run> {
    let mut runs = vec![Run {
        start: pool.log.start,
        count: pool.log.pages as u32,
    }];
    runs.extend((0..superblock::SLOTS).map(|s| Run {
        start: superblock::slot_page(s, pool.pages),
        count: 1,
    }));
    runs
}

/// A stop where everything was fetched before: only errors can come.
pub fn stopped(stop: Stop) -> Error {
    match stop {
        Stop::Error(e) => e,
        Stop::Miss(id) => Error::Logic(format!("{id} left the arena while it was pinned")),
        Stop::Pressure(p) => Error::Logic(format!("no {p:?} where they were reserved")),
    }
}

/// Damage of a staged page as an error.
pub fn staged_damage(d: StagedDamage) -> Error {
    Error::Damaged(format!(
        "staged data of inode {} page {} changed in memory",
        d.ino, d.index
    ))
}
