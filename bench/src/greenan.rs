//! The experiments of Greenan & Miller (2006) on their terms: the metadata workload of section 5.3 (figure 7) and the raw
//! writes of section 5.4 (figures 8 and 9), at the paper's settings and at ours (BARS M-3, M-4).

pub mod metadata;
pub mod writes;
