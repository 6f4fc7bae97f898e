//! Plots: bars of the medians with the least and the greatest round, a panel for each workload, as SVG.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::figure::Kind;
use super::results::Results;
use super::sample::{Rounds, rounds};
use super::table::number;

mod curve;

/// Width of a plot, pixels.
const WIDTH: u32 = 900;
/// Height of a bar with the gap below it.
const ROW: u32 = 22;
/// Height of a panel's head.
const HEAD: u32 = 34;
/// Where the bars begin and end.
const LEFT: i32 = 150;
const RIGHT: i32 = 760;

const OURS: RGBColor = RGBColor(31, 119, 180);
const OTHERS: RGBColor = RGBColor(160, 160, 160);

/// Writes the plot of a figure to `path`.
pub fn draw(results: &Results, path: &Path) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(|e| failed(&e))?;
    }
    let text = match results.figure.kind {
        Kind::Told(_) if results.figure.name.ends_with("-curve") => curve::svg(results),
        _ => svg(results),
    };
    let text = text.map_err(|e| failed(&e))?;
    std::fs::write(path, text).map_err(|e| failed(&e))
}

/// The plot as text.
fn svg(results: &Results) -> Result<String, String> {
    let rows = rounds(&results.samples);
    let mut workloads: Vec<&str> = Vec::new();
    for row in &rows {
        if workloads.last() != Some(&row.median.workload.as_str()) {
            workloads.push(&row.median.workload);
        }
    }
    let panels: Vec<Vec<&Rounds<'_>>> = workloads
        .iter()
        .map(|workload| rows.iter().filter(|row| row.median.workload == *workload).collect())
        .collect();
    let height: u32 = panels.iter().map(|panel| HEAD + ROW * panel.len() as u32).sum();
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (WIDTH, height + 10)).into_drawing_area();
        let drawn = (|| {
            area.fill(&WHITE)?;
            let mut top = 0;
            for panel in &panels {
                draw_panel(&area, panel, top)?;
                top += (HEAD + ROW * panel.len() as u32) as i32;
            }
            area.present()
        })();
        drawn.map_err(|e| e.to_string())?;
    }
    Ok(text)
}

/// The drawing area of an SVG in memory, and why drawing on it failed.
type Area<'t> = DrawingArea<SVGBackend<'t>, Shift>;
type Failed<'t> = DrawingAreaErrorKind<<SVGBackend<'t> as DrawingBackend>::ErrorType>;

/// A workload: its name, then a bar for each file system.
fn draw_panel<'t>(area: &Area<'t>, panel: &[&Rounds<'_>], top: i32) -> Result<(), Failed<'t>> {
    let Some(first) = panel.first() else { return Ok(()) };
    let most = panel.iter().map(|row| row.max).fold(f64::MIN_POSITIVE, f64::max);
    let place = |value: f64| LEFT + (value / most * f64::from(RIGHT - LEFT)) as i32;
    let head = TextStyle::from(("sans-serif", 16).into_font());
    let small = TextStyle::from(("sans-serif", 13).into_font());
    let title = format!("{}, {}", first.median.workload, first.median.unit);
    area.draw(&Text::new(title, (10, top + 12), head))?;
    for (at, row) in panel.iter().enumerate() {
        let y = top + (HEAD + ROW * at as u32) as i32;
        let colour = match row.median.peer.starts_with("keepfs") || row.median.peer.starts_with("arena") {
            true => OURS,
            false => OTHERS,
        };
        let end = place(row.median.value);
        area.draw(&Rectangle::new([(LEFT, y), (end, y + 15)], colour.filled()))?;
        if row.count > 1 {
            let whisker = [(place(row.min), y + 7), (place(row.max), y + 7)];
            area.draw(&PathElement::new(whisker, BLACK.stroke_width(1)))?;
        }
        area.draw(&Text::new(row.median.peer.clone(), (10, y + 1), small.clone()))?;
        let at = end.max(place(row.max)) + 6;
        area.draw(&Text::new(number(row.median.value), (at, y + 1), small.clone()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
