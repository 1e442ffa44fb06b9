//! Open relations and indexed values, as types that are safe to use.
//!
//! They borrow for `'a`: as long as the relation is open. They come from PostgreSQL's callbacks
//! ([`super::callbacks`], [`super::scan`]) and from [`LockedIndex`].
#![allow(unsafe_code)] // relation descriptors, datums

use std::{ffi::CStr, marker::PhantomData, ops::Deref, ptr::NonNull};

use pgrx::{FromDatum, IntoDatum, PgList, pg_sys};

use super::options::OptionValues;
use crate::{
    error::Error,
    pg::memory::OwnedContext,
    types::indexed::{DetoastMemory, IndexedType},
};

#[cfg(feature = "pg15")]
pub type FileLocator = pg_sys::RelFileNode;
#[cfg(not(feature = "pg15"))]
pub type FileLocator = pg_sys::RelFileLocator;

/// What identifies a file of a relation: tablespace, database and number.
pub type FileId = [u32; 3];

/// A relation that is open, and locked, for `'a`.
#[derive(Clone, Copy)]
pub struct Relation<'a> {
    descriptor: NonNull<pg_sys::RelationData>,
    open: PhantomData<&'a pg_sys::RelationData>,
}

impl Relation<'_> {
    /// # Safety
    /// The relation is open for `'a`.
    #[inline]
    pub unsafe fn from_raw(raw: pg_sys::Relation) -> Self {
        Self {
            // SAFETY: the caller's promise.
            descriptor: unsafe { NonNull::new_unchecked(raw) },
            open: PhantomData,
        }
    }

    #[inline]
    pub fn as_raw(self) -> pg_sys::Relation {
        self.descriptor.as_ptr()
    }

    #[inline]
    fn descriptor(&self) -> &pg_sys::RelationData {
        // SAFETY: the relation is open.
        unsafe { self.descriptor.as_ref() }
    }

    #[inline]
    fn catalog_row(&self) -> &pg_sys::FormData_pg_class {
        // SAFETY: an open relation has its row of pg_class. Invalidation replaces the row, but runs
        // in no function that holds this borrow: those of this impl copy what they read at once.
        unsafe { &*self.descriptor().rd_rel }
    }

    pub fn id(self) -> pg_sys::Oid {
        self.descriptor().rd_id
    }

    pub fn name(self) -> String {
        // SAFETY: a name is a C string.
        let name = unsafe { CStr::from_ptr(self.catalog_row().relname.data.as_ptr()) };
        name.to_string_lossy().into_owned()
    }

    pub fn owner(self) -> pg_sys::Oid {
        self.catalog_row().relowner
    }

    #[inline]
    pub fn is_temporary(self) -> bool {
        self.catalog_row().relpersistence as u8 == pg_sys::RELPERSISTENCE_TEMP
    }

    /// Returns true if it is a table of PostgreSQL's own access method.
    pub fn is_heap(self) -> bool {
        // SAFETY: an open table, whose access method is a constant of the server.
        unsafe { self.descriptor().rd_tableam == pg_sys::GetHeapamTableAmRoutine() }
    }

    /// Returns the number of rows that ANALYZE has estimated, negative if it has not.
    pub fn estimated_rows(self) -> f64 {
        f64::from(self.catalog_row().reltuples)
    }

    /// Returns the number of blocks of the main fork.
    pub fn block_count(self) -> u32 {
        let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
        // SAFETY: an open relation.
        unsafe { pg_sys::RelationGetNumberOfBlocksInFork(self.as_raw(), fork) }
    }

    #[inline]
    pub fn locator(self) -> FileLocator {
        #[cfg(feature = "pg15")]
        return self.descriptor().rd_node;
        #[cfg(not(feature = "pg15"))]
        return self.descriptor().rd_locator;
    }

    pub fn file_id(self) -> FileId {
        let file = self.locator();
        #[cfg(feature = "pg15")]
        let [tablespace, database, number] = [file.spcNode, file.dbNode, file.relNode];
        #[cfg(not(feature = "pg15"))]
        let [tablespace, database, number] = [file.spcOid, file.dbOid, file.relNumber];
        [tablespace.to_u32(), database.to_u32(), number.to_u32()]
    }

    /// Returns true if this transaction has given the relation its file. Only then can the file be
    /// filled again without becoming another one.
    pub fn has_new_file(self) -> bool {
        let descriptor = self.descriptor();
        #[cfg(feature = "pg15")]
        let first_file = descriptor.rd_firstRelfilenodeSubid;
        #[cfg(not(feature = "pg15"))]
        let first_file = descriptor.rd_firstRelfilelocatorSubid;
        descriptor.rd_createSubid != 0 || first_file != 0
    }

    /// Returns true if writes must be logged now, as RelationNeedsWAL does. With wal_level =
    /// minimal a file that this transaction created is synced at its end instead.
    pub fn needs_wal(self) -> bool {
        let is_permanent =
            self.catalog_row().relpersistence as u8 == pg_sys::RELPERSISTENCE_PERMANENT;
        // SAFETY: reads a setting of the server.
        let wal_level = unsafe { pg_sys::wal_level };
        let is_replicated = wal_level >= pg_sys::WalLevel::WAL_LEVEL_REPLICA as i32;
        is_permanent && (is_replicated || !self.has_new_file())
    }
}

/// An open index, with at least one key column.
#[derive(Clone, Copy)]
pub struct Index<'a>(Relation<'a>);

impl<'a> Deref for Index<'a> {
    type Target = Relation<'a>;

    #[inline]
    fn deref(&self) -> &Relation<'a> {
        &self.0
    }
}

impl Index<'_> {
    /// # Safety
    /// The relation is an index and open for `'a`.
    #[inline]
    pub unsafe fn from_raw(raw: pg_sys::Relation) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Relation::from_raw(raw) })
    }

    /// Notes which serializable transactions have read the index, before this transaction writes to
    /// it. Raises an ERROR if the transactions cannot be brought into an order.
    pub fn check_readers(self) {
        unsafe extern "C-unwind" {
            /// pgrx has no binding for it.
            fn CheckForSerializableConflictIn(
                relation: pg_sys::Relation,
                row: pg_sys::ItemPointer,
                block: pg_sys::BlockNumber,
            );
        }
        let (any_row, any_block) = (std::ptr::null_mut(), pg_sys::InvalidBlockNumber);
        // SAFETY: an open relation; the guard catches ERRORs.
        unsafe {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                CheckForSerializableConflictIn(self.as_raw(), any_row, any_block);
            });
        }
    }

    /// Returns true if it is the parent of the indexes of partitions, without a file.
    pub fn is_partitioned(self) -> bool {
        self.catalog_row().relkind as u8 != pg_sys::RELKIND_INDEX
    }

    /// Returns true if queries can use it: it is complete.
    pub fn is_valid(self) -> bool {
        // SAFETY: an index has its row of pg_index.
        unsafe { (*self.descriptor().rd_index).indisvalid }
    }

    /// Returns true if it is an index of an access method of this name.
    pub fn is_of(self, access_method: &CStr) -> bool {
        // SAFETY: null, or a C string in the current memory context.
        unsafe {
            let name = pg_sys::get_am_name(self.catalog_row().relam);
            !name.is_null() && CStr::from_ptr(name) == access_method
        }
    }

    /// Returns the number of the table's column that is the first key, or `None` for an expression.
    pub fn column(self) -> Option<i16> {
        // SAFETY: an index has its row of pg_index, whose keys are those of at least one column.
        let column = unsafe { (*self.descriptor().rd_index).indkey.values.as_slice(1)[0] };
        (column != 0).then_some(column)
    }

    /// Returns the modifier that the type of the first key was declared with, or -1.
    pub fn type_modifier(self) -> i32 {
        let (mut id, mut modifier, mut collation) = (pg_sys::InvalidOid, -1, pg_sys::InvalidOid);
        // SAFETY: a look-up in the system cache; every index has column 1.
        unsafe {
            pg_sys::get_atttypetypmodcoll(self.id(), 1, &mut id, &mut modifier, &mut collation);
        }
        modifier
    }

    /// Returns the average width of the indexed column's values in the table, as ANALYZE has found
    /// it, or `None` if that is not known.
    pub fn average_width(self) -> Option<i32> {
        let column = self.column()?;
        // SAFETY: an index has its row of pg_index; a look-up in the system cache.
        let width = unsafe {
            let table = (*self.descriptor().rd_index).indrelid;
            pg_sys::get_attavgwidth(table, column)
        };
        (width > 0).then_some(width)
    }

    /// Returns the values of its options, or `None` if it was created without options.
    pub fn options(self) -> Option<OptionValues> {
        let options = NonNull::new(self.descriptor().rd_options)?.cast::<u8>();
        // SAFETY: options of a relation are a varlena, of as many bytes as its header says.
        unsafe {
            let bytes = pgrx::varlena::varsize_4b(options.as_ptr().cast());
            let stored = std::slice::from_raw_parts(options.as_ptr(), bytes);
            Some(OptionValues::new(stored))
        }
    }

    /// Calls a support function of the operator class, which takes no arguments and returns an
    /// integer. Raises an ERROR if the class has no such function.
    pub fn support_number(self, function: u16) -> i32 {
        // SAFETY: an open index, whose access method has as many support functions. The function
        // takes no arguments; an integer is passed by value.
        unsafe {
            if function == 0 || function > (*self.descriptor().rd_indam).amsupport {
                Error::internal("the access method has no such support function").raise();
            }
            let call = pg_sys::index_getprocinfo(self.as_raw(), 1, function);
            if (*call).fn_nargs != 0 {
                Error::internal("the support function takes arguments").raise();
            }
            pg_sys::FunctionCall0Coll(call, pg_sys::InvalidOid).value() as i32
        }
    }

    /// Returns the type of the values in its first key, as the operator class declares it.
    pub fn value_type(self) -> ValueType {
        // SAFETY: an index has an input type for each key.
        ValueType::of(unsafe { *self.descriptor().rd_opcintype })
    }
}

/// Types of values: of indexed ones, and of arguments of operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    Indexed(IndexedType),
    Other(pg_sys::Oid),
}

impl ValueType {
    pub fn of(id: pg_sys::Oid) -> Self {
        IndexedType::of(id).map_or(Self::Other(id), Self::Indexed)
    }

    /// Returns what messages call the number of elements.
    pub fn dimensions_name(self) -> &'static str {
        match self {
            Self::Indexed(IndexedType::Vector) => "vector dimensions",
            Self::Indexed(IndexedType::Halfvec) => "halfvec dimensions",
            Self::Indexed(IndexedType::Bits) => "bit lengths",
            Self::Other(_) => "dimensions",
        }
    }
}

/// A value of an indexed column or an argument of an operator, not NULL.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    datum: pg_sys::Datum,
    value_type: ValueType,
    lifetime: PhantomData<&'a ()>,
}

impl Value<'_> {
    /// # Safety
    /// A non-null datum of this type, valid for `'a`.
    #[inline]
    pub unsafe fn from_raw(datum: pg_sys::Datum, value_type: ValueType) -> Self {
        Self {
            datum,
            value_type,
            lifetime: PhantomData,
        }
    }

    /// Calls `f` with the elements of the value, which must be a vector of one of the types.
    #[inline]
    pub fn with_vector<R>(self, memory: &mut DetoastMemory, f: impl FnOnce(&[f32]) -> R) -> R {
        let ValueType::Indexed(indexed) = self.value_type else {
            Error::internal("the operator class is not for a type of vectors").raise();
        };
        // SAFETY: a datum of this type, as was just checked.
        unsafe { memory.with_vector(self.datum, indexed, f) }
    }

    /// Calls `f` with the bytes of the value, which must be a text.
    pub fn with_text<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        if self.value_type != ValueType::Other(pg_sys::TEXTOID) {
            Error::internal("the operator class is not for the type text").raise();
        }
        let memory = OwnedContext::new(c"rag detoasted text");
        // SAFETY: a datum of this type, as was just checked. Its plain copy lives as long as
        // `memory`; `f` cannot keep the slice.
        unsafe {
            let plain = memory.run(|| pg_sys::pg_detoast_datum_packed(self.datum.cast_mut_ptr()));
            f(pgrx::varlena::varlena_to_byte_slice(plain))
        }
    }

    /// Returns true if `stored`, which is passed by reference, is this very value.
    pub fn is_at(self, stored: pg_sys::Datum) -> bool {
        self.datum.value() == stored.value()
    }

    /// Returns the value as `T`, or `None` if it is of another type.
    pub fn get<T: FromDatum + IntoDatum>(self) -> Option<T> {
        match self.value_type {
            // SAFETY: a non-null datum of a type that `T` reads.
            ValueType::Other(id) if T::is_compatible_with(id) => unsafe {
                T::from_polymorphic_datum(self.datum, false, id)
            },
            _ => None,
        }
    }
}

/// An index and its table, open until this is dropped. Their locks last until the end of the
/// transaction.
pub struct LockedIndex {
    table: pg_sys::Relation,
    index: pg_sys::Relation,
}

impl LockedIndex {
    /// Opens and locks an index and its table, the table first. Raises an ERROR if one of them does
    /// not exist. Returns `None` if the index does not belong to the table.
    pub fn open(index_id: pg_sys::Oid, table_id: pg_sys::Oid) -> Option<Self> {
        Self::open_for(index_id, table_id, pg_sys::AccessShareLock)
    }

    /// Opens an index and its table with a lock of one of PostgreSQL's modes. See [`Self::open`].
    pub fn open_for(index_id: pg_sys::Oid, table_id: pg_sys::Oid, lock: u32) -> Option<Self> {
        let lock = lock as pg_sys::LOCKMODE;
        // SAFETY: both relations are closed by `drop`.
        unsafe {
            let table = pg_sys::relation_open(table_id, lock);
            let index = pg_sys::relation_open(index_id, lock);
            let open = Self { table, index };
            let entry = (*index).rd_index.as_ref()?;
            (entry.indrelid == table_id).then_some(open)
        }
    }

    pub fn table(&self) -> Relation<'_> {
        // SAFETY: it is open for as long as this.
        unsafe { Relation::from_raw(self.table) }
    }

    pub fn index(&self) -> Index<'_> {
        // SAFETY: as above; `open` has checked that it is an index.
        unsafe { Index::from_raw(self.index) }
    }
}

impl Drop for LockedIndex {
    fn drop(&mut self) {
        // SAFETY: opened by `open`. In a transaction that has failed, the relations were closed
        // with their resource owner.
        unsafe {
            if pg_sys::IsTransactionState() && !std::thread::panicking() {
                pg_sys::relation_close(self.index, pg_sys::NoLock as pg_sys::LOCKMODE);
                pg_sys::relation_close(self.table, pg_sys::NoLock as pg_sys::LOCKMODE);
            }
        }
    }
}

/// Returns the relation whose file this is. Those of temporary relations are not found.
pub fn relation_with_file([tablespace, _, number]: FileId) -> Option<pg_sys::Oid> {
    unsafe extern "C-unwind" {
        /// pgrx has no binding for it.
        #[cfg_attr(feature = "pg15", link_name = "RelidByRelfilenode")]
        fn RelidByRelfilenumber(tablespace: pg_sys::Oid, number: pg_sys::Oid) -> pg_sys::Oid;
    }
    // SAFETY: reads the catalog; the guard catches its ERRORs.
    let id = unsafe {
        pg_sys::ffi::pg_guard_ffi_boundary(|| {
            RelidByRelfilenumber(tablespace.into(), number.into())
        })
    };
    (id != pg_sys::InvalidOid).then_some(id)
}

/// Returns the table of an index, or `None` if `index` is not an index.
pub fn table_of(index: pg_sys::Oid) -> Option<pg_sys::Oid> {
    // SAFETY: a look-up in the system cache.
    let table = unsafe { pg_sys::IndexGetRelation(index, true) };
    (table != pg_sys::InvalidOid).then_some(table)
}

/// Returns the indexes with a file that a partitioned index consists of, and locks them. The parent
/// is locked.
pub fn leaf_indexes(index: pg_sys::Oid) -> Vec<pg_sys::Oid> {
    unsafe extern "C-unwind" {
        /// pgrx has no binding for it.
        #[allow(improper_ctypes)] // a list of OIDs
        fn find_all_inheritors(
            parent: pg_sys::Oid,
            lock: pg_sys::LOCKMODE,
            counts: *mut *mut pg_sys::List,
        ) -> *mut pg_sys::List;
    }
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the declaration is that of all versions of PostgreSQL; the guard catches its ERRORs.
    unsafe {
        let all = pg_sys::ffi::pg_guard_ffi_boundary(|| {
            find_all_inheritors(index, lock, std::ptr::null_mut())
        });
        PgList::<pg_sys::Oid>::from_pg(all)
            .iter_oid()
            .filter(|id| pg_sys::get_rel_relkind(*id) as u8 == pg_sys::RELKIND_INDEX)
            .collect()
    }
}

/// Returns the name of a relation, or its OID if it does not exist.
pub fn relation_name(id: pg_sys::Oid) -> String {
    // SAFETY: null, or a C string in the current memory context.
    unsafe {
        let name = pg_sys::get_rel_name(id);
        if name.is_null() {
            return id.to_u32().to_string();
        }
        CStr::from_ptr(name).to_string_lossy().into_owned()
    }
}
