//! Requests that are outstanding at a slice's end only because the slice began with none.

/// Expected growth of the number of outstanding requests within the windows of slices that begin with
/// none, as a share of the requests that are due in the windows.
///
/// Requests that come at a rate r and take a time L are outstanding after t in the number
/// r·E\[min(L, t)\] if the server sustains r: of those due u ago, the share P(L > u) is. So the number
/// grows by r·(E\[min(L, end)\] − E\[min(L, lead-in)\]) within a window, and as many fewer requests
/// complete than are due.
///
/// `latencies` are values with their counts, `slices` are lead-ins with lengths that include them, all
/// in one unit of time. Zero without requests or windows.
pub fn outstanding_share(latencies: &[(f64, u64)], slices: &[(f64, f64)]) -> f64 {
    let requests: f64 = latencies.iter().map(|(_, count)| *count as f64).sum();
    let windows: f64 = slices.iter().map(|(lead_in, length)| length - lead_in).sum();
    if requests == 0.0 || windows <= 0.0 {
        return 0.0;
    }
    let growth = |lead_in: f64, length: f64| -> f64 {
        let of =
            |(value, count): &(f64, u64)| *count as f64 * (value.min(length) - value.min(lead_in));
        latencies.iter().map(of).sum::<f64>() / requests
    };
    slices.iter().map(|(lead_in, length)| growth(*lead_in, *length)).sum::<f64>() / windows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_outlast_the_lead_in_are_outstanding_at_the_end() {
        // Of 100 requests in a slice of 10 with a lead-in of 2, 2% take 500: 2% of those due in the
        // window are not answered in it.
        let share = outstanding_share(&[(1.0, 98), (500.0, 2)], &[(2.0, 10.0)]);
        assert!((share - 0.02).abs() < 1e-12, "{share}");
        // All end in the lead-in of the slice that they belong to, or as long after it.
        assert_eq!(outstanding_share(&[(1.0, 98), (2.0, 2)], &[(2.0, 10.0)]), 0.0);
        // Half a window long, beyond the lead-in: as many as are due in the half of it.
        assert_eq!(outstanding_share(&[(6.0, 5)], &[(2.0, 10.0), (2.0, 10.0)]), 0.5);
        assert_eq!(outstanding_share(&[], &[(2.0, 10.0)]), 0.0);
        assert_eq!(outstanding_share(&[(6.0, 5)], &[]), 0.0);
    }
}
