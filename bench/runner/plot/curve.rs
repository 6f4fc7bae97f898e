//! Curves of latency over throughput, a line for each setting, as WAFL's figures 1 and 2 have them.

use plotters::prelude::*;

use super::super::results::Results;
use super::super::sample::{Rounds, rounds};

const SIZE: (u32, u32) = (900, 520);
/// Latency at which the plot ends, us; beyond it a curve is as good as upright.
const LATENCY_MAX_US: f64 = 30_000.0;
/// Distinct at a glance, also without colours by their order.
const COLOURS: [RGBColor; 8] = [
    RGBColor(90, 90, 90),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
];

/// A setting: its name and its points (operations a second, latency in us) in the order of the loads.
type Curve<'s> = (&'s str, Vec<(f64, f64)>);

/// The curves of rows whose value is a latency and that tell what was done in a second.
fn curves<'s>(rows: &[Rounds<'s>]) -> Vec<Curve<'s>> {
    let mut curves: Vec<Curve<'s>> = Vec::new();
    for row in rows.iter().filter(|row| row.median.unit == "us") {
        let Some(per_second) = row.median.get("per_second") else {
            continue;
        };
        let (name, point) = (row.median.peer.as_str(), (per_second, row.median.value));
        match curves.iter_mut().find(|(peer, _)| *peer == name) {
            Some((_, points)) => points.push(point),
            None => curves.push((name, vec![point])),
        }
    }
    curves
}

/// The plot as text.
pub fn svg(results: &Results) -> Result<String, String> {
    let rows = rounds(&results.samples);
    let mut text = String::new();
    drawn(&curves(&rows), &mut text).map_err(|e| e.to_string())?;
    Ok(text)
}

fn drawn(curves: &[Curve<'_>], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|(_, points)| points.iter());
    let right = points().map(|(x, _)| *x).fold(1.0, f64::max) * 1.05;
    let least = points().map(|(_, y)| *y).fold(LATENCY_MAX_US, f64::min).max(0.1);
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, (least * 0.8..LATENCY_MAX_US).log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("operations a second").y_desc("mean latency, us").draw()?;
    for ((name, points), colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let shown = points.iter().map(|(x, y)| (*x, y.min(LATENCY_MAX_US)));
        let line = chart.draw_series(LineSeries::new(shown.clone(), colour.stroke_width(2)))?;
        let colour = *colour;
        line.label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(shown.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    let mut legend = chart.configure_series_labels();
    legend
        .position(SeriesLabelPosition::UpperLeft)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    drop(legend);
    Ok(())
}

#[cfg(test)]
mod tests;
