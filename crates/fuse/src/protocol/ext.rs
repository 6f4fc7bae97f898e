//! Extensions behind a request: security contexts and one supplementary group of the caller.

use super::flags::EXT_GROUPS;
use super::request::ExtHeader;
use keepfs_vfs::Errno;
use zerocopy::FromBytes;

/// What the extensions of a request say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// The parent directory's group, if the caller is a member by a supplementary group (`CREATE_SUPP_GROUP`).
    pub group: Option<u32>,
}

impl Extensions {
    /// Parses the extension area of a request. Unknown types are skipped. Errors: `EINVAL` if sizes do not fit.
    pub fn parse(mut area: &[u8]) -> Result<Extensions, Errno> {
        let mut found = Extensions::default();
        while !area.is_empty() {
            let (head, _) = ExtHeader::read_from_prefix(area).map_err(|_| Errno::EINVAL)?;
            let size = head.size as usize;
            if size < size_of::<ExtHeader>() || size > area.len() {
                return Err(Errno::EINVAL);
            }
            if head.r#type == EXT_GROUPS {
                found.group = first_group(&area[size_of::<ExtHeader>()..size])?;
            }
            area = &area[size.next_multiple_of(8).min(area.len())..];
        }
        Ok(found)
    }
}

/// The first of the groups in `body`: a count, then that many numbers.
fn first_group(body: &[u8]) -> Result<Option<u32>, Errno> {
    let (count, rest) = u32::read_from_prefix(body).map_err(|_| Errno::EINVAL)?;
    if rest.len() / 4 < count as usize {
        return Err(Errno::EINVAL);
    }
    Ok(u32::read_from_prefix(rest)
        .ok()
        .filter(|_| count > 0)
        .map(|(group, _)| group))
}
