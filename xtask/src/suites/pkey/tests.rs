//! A guest that fails, or that ends before its end, is no success.

use super::judge;

#[test]
fn only_a_whole_run_passes() {
    let whole = "boot\nKEEPFS ok keys\r\nnoise\nKEEPFS ok mount\nKEEPFS figure pkey 9.5 ns\nKEEPFS end\r\n";
    let said = judge(whole).unwrap();
    assert!(said.contains("2 checks") && said.contains("pkey 9.5 ns"), "{said}");
    for broken in [
        "",
        "KEEPFS ok keys\n",
        "KEEPFS ok keys\nKEEPFS FAILED mount\nKEEPFS end\n",
    ] {
        assert!(judge(broken).is_err(), "{broken}");
    }
}
