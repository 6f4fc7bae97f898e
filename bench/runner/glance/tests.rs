//! Every verdict has its row, in the order of the bars.

use super::super::figure;
use super::super::sample::Sample;
use super::*;

fn results(figure: &str, samples: Vec<Sample>) -> Results {
    Results {
        figure: figure::named(figure).expect("a figure"),
        how: String::new(),
        samples,
        missing: Vec::new(),
    }
}

#[test]
fn rows_are_in_order_and_floors_stand_beside_misses() {
    let speed = |workload: &str, peer: &str, value| Sample::new(workload, peer, value, "op/s");
    let ops = results(
        "ops",
        vec![speed("stat", "keepfs", 1.0), speed("stat", "memory-dev", 2.0)],
    );
    let sync = results(
        "sync-ssd",
        vec![
            speed("delete", "keepfs", 10.0),
            speed("delete", "memory-dev", 20.0),
            speed("delete", "ext2", 50.0),
        ],
    );
    let growth = results("growth", vec![Sample::new("unmount", "keepfs", 0.5, "s")]);
    let text = table(&[ops, sync, growth]);
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| bar"))
        .collect();
    assert_eq!(
        rows,
        [
            "| M-17 | [sync-ssd](#sync-ssd) | delete | keepfs ≥ 1x ext2 | 0.20x | no: out of reach | 0.40x |",
            "| P-3 | [ops](#ops) | stat | keepfs ≥ 0.9x memory-dev | 0.50x | **no** |  |",
            "| P-7 | [growth](#growth) | unmount | ≤ 2 s | 0.5000 | yes |  |",
        ]
    );
    assert!(text.contains("\n1 of 3 are met; 1 are out of reach"), "{text}");
    assert_eq!(table(&[]), "");
}
