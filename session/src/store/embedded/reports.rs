//! Reports of processes, of which there is one: kept in memory, and gone with it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;

use super::EmbeddedStore;
use super::backend::StorageBackend;
use crate::id::SessionId;
use crate::store::report_store::MOST_REPORTS;
use crate::store::{ReportStore, Result, StoreMemory, WorkerId};

#[derive(Default)]
pub struct KnownReports {
    reports: BTreeMap<String, (Instant, Bytes)>,
    orders: BTreeMap<String, (Instant, String)>,
}

impl KnownReports {
    fn forget(&mut self) {
        let now = Instant::now();
        self.reports.retain(|_, (ends, _)| *ends > now);
        self.orders.retain(|_, (ends, _)| *ends > now);
    }
}

#[async_trait]
impl<S: StorageBackend> ReportStore for EmbeddedStore<S> {
    async fn report(
        &self,
        process: &str,
        report: &Bytes,
        lasts: Duration,
    ) -> Result<Option<String>> {
        let mut state = self.state()?;
        let known = &mut state.reports;
        known.forget();
        if known.reports.len() < MOST_REPORTS || known.reports.contains_key(process) {
            let kept = (Instant::now() + lasts, report.clone());
            known.reports.insert(process.to_owned(), kept);
        }
        Ok(known.orders.get(process).map(|(_, order)| order.clone()))
    }

    async fn reports(&self) -> Result<Vec<(String, Bytes)>> {
        let mut state = self.state()?;
        state.reports.forget();
        let all = state.reports.reports.iter();
        Ok(all
            .map(|(process, (_, report))| (process.clone(), report.clone()))
            .collect())
    }

    async fn order(&self, process: &str, order: &str, lasts: Duration) -> Result<bool> {
        let mut state = self.state()?;
        let known = &mut state.reports;
        known.forget();
        if !known.reports.contains_key(process) {
            return Ok(false);
        }
        let kept = (Instant::now() + lasts, order.to_owned());
        known.orders.insert(process.to_owned(), kept);
        Ok(true)
    }

    async fn worker_of(&self, session: &SessionId, principal: &str) -> Result<Option<WorkerId>> {
        let mut state = self.state()?;
        let found = state.session(&self.backend, session)?;
        let own = found.filter(|found| found.principal == principal);
        let lease = own.and_then(|own| own.lease.as_ref());
        let held = lease.filter(|lease| lease.expires > Instant::now());
        Ok(held.map(|lease| lease.worker.clone()))
    }

    async fn memory(&self) -> Result<Vec<StoreMemory>> {
        Ok(Vec::new())
    }
}
