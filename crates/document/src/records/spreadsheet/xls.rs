//! Checks a workbook in the format of Excel before 2007 (MS-CFB, MS-XLS), which the library trusts.
//!
//! The library follows the sectors of a stream as long as they have a next one, and makes room for
//! all cells between the first and the last one of a sheet. So a damaged file of a few kilobytes
//! would take all memory.

/// Maximum size of the cells between the first and the last ones of all sheets, in bytes: that of
/// a sheet with all its rows and columns, and half as much again.
const MAX_BYTES: u64 = 600 << 20;
/// Size of a cell in the library, in bytes.
const CELL: u64 = 24;
/// Maximum number of cells that a sheet may claim to have.
const MAX_CLAIMED: u64 = 1 << 24;
/// Sector numbers from this one on are none.
const NO_SECTOR: u32 = 0xFFFF_FFFA;
/// Length of an entry of the directory, in bytes.
const ENTRY: usize = 128;
/// Streams that are shorter are in sectors of [`SHORT_SECTOR`] bytes, in a stream of their own.
const SHORT: usize = 4096;
const SHORT_SECTOR: usize = 64;

/// # Errors
/// What is damaged, or that the cells would take too much memory.
pub fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let stream = CompoundFile::open(bytes)?.workbook()?;
    let mut size = 0;
    for sheet in sheets(&stream) {
        let cells = Cells::of(stream.get(sheet..).unwrap_or_default());
        if cells.claimed > MAX_CLAIMED {
            return Err("a sheet claims to have more cells than Excel has");
        }
        size += (cells.values.count() + cells.formulas.count()) * CELL;
        if size > MAX_BYTES {
            return Err("its cells are too far from each other");
        }
    }
    Ok(())
}

fn number_16(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn number_32(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    (0..bytes.len() / 4).filter_map(|i| number_32(bytes, i * 4))
}

/// A file of streams, which are chains of sectors.
struct CompoundFile<'a> {
    bytes: &'a [u8],
    sector: usize,
    /// The sector after each sector.
    next: Vec<u32>,
}

const DAMAGED: &str = "its sectors are damaged";

impl<'a> CompoundFile<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let sector = match number_16(bytes, 30) {
            Some(9) => 512,
            Some(12) => 4096,
            _ => return Err(DAMAGED),
        };
        let mut file = Self {
            bytes,
            sector,
            next: vec![],
        };
        let count = bytes.len() / sector + 1;
        let mut tables: Vec<u32> = numbers(bytes.get(76..512).ok_or(DAMAGED)?).collect();
        let mut more = number_32(bytes, 68).unwrap_or(NO_SECTOR);
        while more < NO_SECTOR {
            tables.extend(numbers(file.sector(more)?));
            more = tables.pop().unwrap_or(NO_SECTOR);
            if tables.len() > count + 2 * sector {
                return Err(DAMAGED);
            }
        }
        tables.retain(|table| *table < NO_SECTOR);
        if tables.len() > count {
            return Err(DAMAGED);
        }
        for table in tables {
            let table = file.sector(table)?;
            file.next.extend(numbers(table));
        }
        Ok(file)
    }

    fn sector(&self, number: u32) -> Result<&'a [u8], &'static str> {
        let start = (number as usize + 1) * self.sector;
        let end = self.bytes.len().min(start + self.sector);
        self.bytes.get(start..end).ok_or(DAMAGED)
    }

    /// Returns the bytes of a chain of sectors, up to a length.
    fn chain(&self, first: u32, length: usize) -> Result<Vec<u8>, &'static str> {
        let sector = |number| self.sector(number);
        chain(sector, &self.next, first, length)
    }

    /// Returns the stream with the workbook.
    fn workbook(&self) -> Result<Vec<u8>, &'static str> {
        let number = |at| number_32(self.bytes, at).ok_or(DAMAGED);
        let directory = self.chain(number(48)?, usize::MAX)?;
        let entry_of = |stream: &str| {
            let name: Vec<u8> = stream.encode_utf16().flat_map(u16::to_le_bytes).collect();
            directory.chunks_exact(ENTRY).find(|entry| {
                let (begin, after) = entry.split_at(name.len());
                begin.eq_ignore_ascii_case(&name) && after.starts_with(&[0, 0])
            })
        };
        let place = |entry: &[u8]| Some((number_32(entry, 116)?, number_32(entry, 120)? as usize));
        // The library reads the short streams even where the workbook is a long one.
        let (short, next): (Vec<u8>, Vec<u32>) = match directory.get(..ENTRY).and_then(place) {
            Some((first, length)) if number(64)? > 0 => {
                let next = self.chain(number(60)?, number(64)? as usize * self.sector)?;
                (self.chain(first, length)?, numbers(&next).collect())
            }
            _ => (vec![], vec![]),
        };
        let entry = entry_of("Workbook").or_else(|| entry_of("Book"));
        let (first, length) = entry.and_then(place).ok_or("it has no workbook")?;
        if length >= SHORT {
            return self.chain(first, length);
        }
        let sector = |number: u32| {
            let start = number as usize * SHORT_SECTOR;
            let end = short.len().min(start + SHORT_SECTOR);
            short.get(start..end).ok_or(DAMAGED)
        };
        chain(sector, &next, first, length)
    }
}

/// Returns the bytes of a chain of sectors, up to a length. A chain that has more sectors than
/// there are has no end.
fn chain<'a>(
    sector: impl Fn(u32) -> Result<&'a [u8], &'static str>,
    next: &[u32],
    first: u32,
    length: usize,
) -> Result<Vec<u8>, &'static str> {
    let mut bytes = vec![];
    let mut number = first;
    for _ in 0..=next.len() {
        if number >= NO_SECTOR || bytes.len() >= length {
            bytes.truncate(length);
            return Ok(bytes);
        }
        bytes.extend_from_slice(sector(number)?);
        number = *next.get(number as usize).ok_or(DAMAGED)?;
    }
    Err(DAMAGED)
}

/// Returns the type and the data of each record.
fn records(stream: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = stream;
    std::iter::from_fn(move || {
        let (kind, length) = (number_16(rest, 0)?, number_16(rest, 2)?);
        let data = rest.get(4..4 + usize::from(length))?;
        rest = &rest[4 + data.len()..];
        Some((kind, data))
    })
}

const END: u16 = 0x000A;
const BEGIN: u16 = 0x0809;

/// Returns the places at which the sheets begin.
fn sheets(stream: &[u8]) -> Vec<usize> {
    const SHEET: u16 = 0x0085;
    let records = records(stream).take_while(|(kind, _)| *kind != END);
    let sheets = records.filter(|(kind, _)| *kind == SHEET);
    let places = sheets.filter_map(|(_, data)| Some(number_32(data, 0)? as usize));
    places.collect()
}

/// The cells of a sheet.
#[derive(Default)]
struct Cells {
    values: Area,
    formulas: Area,
    claimed: u64,
}

impl Cells {
    fn of(sheet: &[u8]) -> Self {
        let mut cells = Self::default();
        // The sheet itself, and what is in it.
        let mut depth = 0;
        for (kind, data) in records(sheet) {
            match kind {
                BEGIN => depth += 1,
                END if depth <= 1 => break,
                END => depth -= 1,
                kind if depth <= 1 => cells.add(kind, data),
                _ => {}
            }
        }
        cells
    }

    fn add(&mut self, kind: u16, data: &[u8]) {
        let at = |place| number_16(data, place).map_or(0, u64::from);
        match kind {
            // Cells of one value.
            0x0203 | 0x0204 | 0x0205 | 0x00D6 | 0x00FD | 0x027E => self.values.add(at(0), at(2)),
            // Cells of a row with numbers. The last column is behind them.
            0x00BD => {
                self.values.add(at(0), at(2));
                self.values.add(at(0), at(data.len().saturating_sub(2)));
            }
            0x0006 => {
                self.values.add(at(0), at(2));
                self.formulas.add(at(0), at(2));
            }
            0x0200 => self.claimed = self.claimed.max(claimed(data)),
            _ => {}
        }
    }
}

/// Returns the number of cells between the first and the last row and column of a record.
fn claimed(data: &[u8]) -> u64 {
    let wide = |at| number_32(data, at).map_or(0, u64::from);
    let narrow = |at| number_16(data, at).map_or(0, u64::from);
    let (rows, from, to) = match data.len() {
        10 => (narrow(2).saturating_sub(narrow(0)), narrow(4), narrow(6)),
        _ => (wide(4).saturating_sub(wide(0)), narrow(8), narrow(10)),
    };
    // Columns are counted from 0 if the first one cannot be.
    let from = if from > 0xFF || to < from { 0 } else { from };
    rows * (to - from)
}

/// The rows and columns from the first to the last cell.
#[derive(Default)]
struct Area {
    rows: Option<(u64, u64)>,
    columns: Option<(u64, u64)>,
}

impl Area {
    fn add(&mut self, row: u64, column: u64) {
        for (range, place) in [(&mut self.rows, row), (&mut self.columns, column)] {
            let (first, last) = range.unwrap_or((place, place));
            *range = Some((first.min(place), last.max(place)));
        }
    }

    fn count(&self) -> u64 {
        let length = |range: Option<(u64, u64)>| range.map_or(0, |(first, last)| last - first + 1);
        length(self.rows) * length(self.columns)
    }
}
