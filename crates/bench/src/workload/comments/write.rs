//! What indexes cost writers.

use super::facts::each_comment;
use super::fill::{Filled, comments_of, create_indexes, fill};
use crate::engine::{Comment, Outcome};
use crate::record::{OpKind, Summary};
use crate::run::{Meter, Tally, crew};
use crate::workload::{Case, random};
use flagstone_comments::Comments;

/// Fills a store, creates its indexes, then inserts new comments one by one, or replaces present
/// ones by others. Figure: `fill_per_s`, of inserts in batches of 1,000 before there are indexes.
pub(in crate::workload) fn writes(case: &Case<'_>) -> Outcome<Summary> {
    let documents = &case.options.documents;
    let (comments, threads) = (documents.comments, case.options.pace.threads as u64);
    let Filled { opened, fill_per_s, .. } = fill(case, comments)?;
    let store = comments_of(&*opened.engine)?;
    create_indexes(store, documents.indexes)?;
    let state = format!("{comments} comments, {} indexes", documents.indexes);
    let mut recorder = case.record(&opened, &state)?;
    let seed = case.options.data.seed;
    let workers = crew(case.options.pace.threads, |thread| {
        let (made, replace) = (Comments::new(seed), documents.replace);
        // The comments of another seed have the same keys and other contents.
        let other = Comments::new(!seed);
        let (mut random, mut next) = (random(seed, thread), comments + thread);
        move |meter: &mut Meter<'_>| {
            let (made, number) =
                if replace { (&other, random.below(comments)) } else { (&made, next) };
            next += threads;
            each_comment(made, number..number + 1, &mut |key, json| {
                meter.begin();
                let written = store.write(&[Comment { key, json }]);
                meter.end(OpKind::Put, Tally::put(key.len() + json.len()));
                written
            })?;
            Ok(true)
        }
    });
    recorder.run(&*opened.engine, &case.options.pace, workers)?;
    recorder.figure("fill_per_s", fill_per_s);
    case.stage.finish(opened, recorder)
}
