//! Pages that are counted for somebody before they are found, wherever they are (SPEC S-11.11).
//!
//! What the open zones do not have is looked for while others go on, and for long: the gate is waited for. The count is taken
//! before, in one step with the question whether there is so much before the reserve (S-10.5), so what is found then is nobody
//! else's, and two who look at the same time do not each find a part and give up.

use super::{Holder, Inner, Near, Purpose, Run, Settled, Space, hide_in, hide_run, singles, take_open};

/// So many pages are `holder`'s that were not found yet. Dropped, they are anybody's again.
pub struct Claim<'s> {
    space: &'s Space,
    pub(super) holder: Holder,
    left: u32,
}

impl Claim<'_> {
    /// How many were not found yet.
    pub fn left(&self) -> u32 {
        self.left
    }

    /// These were found: they are counted already.
    fn found(&mut self, inner: &mut Inner, runs: &[Run]) {
        self.left -= runs.iter().map(|run| run.count).sum::<u32>();
        inner.held.add(self.holder, runs);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            let figures = &mut self.space.inner.lock().figures;
            figures.reserved = figures.reserved.saturating_sub(u64::from(self.left));
        }
    }
}

impl Space {
    /// Counts `want` pages for `holder`, all or none.
    pub fn claim(&self, holder: Holder, want: u32, purpose: Purpose) -> Option<Claim<'_>> {
        let claim = self.claim_some(holder, want, purpose);
        (claim.left == want).then_some(claim)
    }

    /// The same for as many as there are, `most` at most.
    pub fn claim_some(&self, holder: Holder, most: u32, purpose: Purpose) -> Claim<'_> {
        let figures = &mut self.inner.lock().figures;
        let left = u64::from(most).min(figures.available(purpose)) as u32;
        figures.reserved += u64::from(left);
        Claim {
            space: self,
            holder,
            left,
        }
    }

    /// Takes what the open zones have of the claim.
    pub fn take_open(&self, claim: &mut Claim<'_>) -> Vec<Run> {
        if claim.left == 0 {
            return Vec::new();
        }
        let mut inner = self.inner.lock();
        let (runs, _) = take_open(&mut inner, claim.left, Near::Current);
        claim.found(&mut inner, &runs);
        runs
    }

    /// Takes what a part of the pool has of the claim. Where a zone is open, nobody else finds those pages there any more.
    pub fn take_settled(&self, claim: &mut Claim<'_>, part: Settled<'_>) -> Vec<Run> {
        let mut inner = self.inner.lock();
        let mut zone = part.zone();
        inner.hide_what_is_not_free(core::slice::from_mut(&mut zone));
        let mut runs = Vec::new();
        zone.take(claim.left, &mut runs);
        claim.found(&mut inner, &runs);
        runs.iter().for_each(|run| hide_run(&mut inner.zones, *run));
        runs
    }

    /// How many pages can be had where `taken` tells which are allocated: as it is now, for who chooses where to look.
    pub fn free_beside(&self, start: u64, taken: &[bool]) -> u32 {
        let mut zone = super::OpenZone::new(0, start, taken.len() as u32, |page| taken[(page - start) as usize]);
        self.inner
            .lock()
            .hide_what_is_not_free(core::slice::from_mut(&mut zone));
        zone.free()
    }
}

impl Inner {
    /// What the page bitmap does not tell: quarantine, what somebody holds, chunks that leave, pages that the device refused.
    pub(super) fn hide_what_is_not_free(&self, zones: &mut [super::OpenZone]) {
        let quarantined = self.quarantine.iter().map(|q| q.run);
        let kept = self.held.runs().chain(self.leaving.iter().copied());
        for run in quarantined.chain(kept).chain(singles(&self.bad)) {
            zones.iter_mut().for_each(|zone| hide_in(zone, run));
        }
    }
}
