//! Decides when a scan whose rows must pass a filter is given up for ranking all rows that pass.

/// Fraction of the cost of ranking that the scan may use up before it is looked at.
const FIRST_LOOK: f64 = 0.3;
/// As much of the cost of ranking is the most that the scan is expected to use up.
const MAX_SHARE: f64 = 1.2;

/// How a scan gets on, in rows that it has read.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Number of rows that cost as much to read as ranking.
    ranking: f64,
    /// Number of rows that are wanted of those that pass.
    wanted: f64,
    /// Rows between two looks.
    window: f64,
    next_look: f64,
    found_before: usize,
}

impl Progress {
    /// `ranking` is the number of rows that cost as much to read as ranking costs, and `wanted` the
    /// number of rows that must pass.
    pub fn new(ranking: usize, wanted: usize) -> Self {
        let window = (ranking as f64 * FIRST_LOOK).floor();
        Self {
            ranking: ranking as f64,
            wanted: wanted as f64,
            window,
            next_look: window,
            found_before: 0,
        }
    }

    /// Returns true if the scan is to go on, of which `read` rows were read, and `found` passed. It
    /// goes on if the rows that are missing will cost less than ranking, as far as those that were
    /// found last can tell.
    #[inline]
    pub fn goes_on(&mut self, read: usize, found: usize) -> bool {
        (read as f64) < self.next_look || self.look(read as f64, found)
    }

    fn look(&mut self, read: f64, found: usize) -> bool {
        let found_now = (found - self.found_before) as f64;
        let missing = (self.wanted - found as f64).max(0.0);
        self.found_before = found;
        self.next_look = read + self.window;
        let needed = missing * self.window / found_now; // not finite without any
        needed <= self.ranking && read + needed <= self.ranking * MAX_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    /// Returns how many rows a scan reads until it is given up, or has found what is wanted.
    fn read(ranking: usize, wanted: usize, passes: impl Fn(usize) -> bool) -> (usize, usize) {
        let mut progress = Progress::new(ranking, wanted);
        let (mut read, mut found) = (0, 0);
        while found < wanted && progress.goes_on(read, found) {
            found += usize::from(passes(read));
            read += 1;
        }
        (read, found)
    }

    #[test]
    fn a_scan_without_matches_is_given_up_at_the_first_look() {
        assert_eq!(read(1000, 10, |_| false), (300, 0));
        assert_eq!(read(0, 10, |_| true), (0, 0));
    }

    #[test]
    fn a_scan_goes_on_while_the_rest_costs_less_than_ranking() {
        // one row in ten passes
        assert_eq!(read(1000, 100, |row| row % 10 == 9), (1000, 100));
        assert_eq!(read(1000, 200, |row| row % 10 == 9), (300, 30));
        assert_eq!(read(1000, 118, |row| row % 10 == 9), (1180, 118));
        // no more pass after the first
        assert_eq!(read(1000, 100, |row| row < 90), (600, 90));
    }

    #[test]
    fn a_scan_never_costs_much_more_than_ranking() {
        for divisor in 1..100 {
            for wanted in [1, 10, 100, 1000] {
                let (read, _) = read(1000, wanted, |row| row % divisor == 0);
                assert!(read <= 1500, "{read} rows for {wanted} of each {divisor}th");
            }
        }
    }
}
