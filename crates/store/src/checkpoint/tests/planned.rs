//! A decision of a checkpoint that something else changed before it was carried out stops it before its superblock (C-3).

use super::*;
use crate::checkpoint::tests::world;
use keepfs_format::PAGE;

type Change = fn(&mut Plan<'_>, u64);

/// S-13.9
#[test]
fn a_decision_that_was_changed_or_lost_stops_the_plan() {
    let changes: [(&str, Change); 7] = [
        ("nothing", |_, _| {}),
        ("an entry", |plan, id| {
            plan.innards().entries.scribble(id, |entry| entry.generation = 9.into());
        }),
        ("an entry's page", |plan, id| {
            plan.innards().entries.scribble(id, |entry| entry.first = 1.into());
        }),
        ("an entry is lost", |plan, id| plan.innards().entries.lose(id)),
        ("a root as it was", |plan, _| {
            plan.innards().old_roots[1].scribble(|root| root.height = 3);
        }),
        ("a place", |plan, _| {
            let map = MetaId::map(Space::Nodes, 0, 0);
            plan.innards().places.insert(map.0, [700, 0]);
            plan.innards().places.scribble(map.0, |place| place[0] = 9);
        }),
        ("a place that is not used", |plan, _| {
            plan.innards().places.insert(1, [700, 0]);
            plan.innards().places.lose(1);
        }),
    ];
    let (store, r) = world();
    store.checkpoint().expect("durable");
    for (what, change) in changes {
        let homes = store.home.flash().checkpoints.keeper.lock().homes.clone();
        let mut plan = Plan::new(store.home.flash(), &store.frames, homes).expect("roots");
        let mut bytes = [0; PAGE];
        let pin = store.fetch(r.id).expect("there");
        store.verified_copy(&pin, &mut bytes).expect("right");
        plan.live(r.id, &bytes).expect("placed");
        change(&mut plan, r.id.0);
        let done = plan.finish();
        assert_eq!(
            matches!(done, Err(Error::Heap { .. })),
            what != "nothing",
            "{what}: {done:?}"
        );
    }
}
