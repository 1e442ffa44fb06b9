# Generates the parts of the documentation that tell what the database tells: signatures of
# functions, columns of views, settings.
package RagDocTables;

use strict;
use warnings;
use utf8;

use Exporter 'import';
use Text::Wrap ();

our @EXPORT = qw(generated_lines public_functions readable_relations);

# The objects that the reference describes, as the ends of queries: functions that users call, but
# not the one that only tells how to call rag_search, and the views and tables that a role may read.
my $functions = <<'SQL';
FROM pg_proc p
JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'
JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'rag'
WHERE p.pronamespace = e.extnamespace AND p.proname LIKE 'rag\_%'
  AND p.oid IS DISTINCT FROM
      to_regprocedure(e.extnamespace::regnamespace || '.rag_search(text, integer)')
SQL

my $relations = <<'SQL';
FROM pg_class c
WHERE c.relnamespace = 'rag'::regnamespace AND c.relkind IN ('v', 'r', 'p') AND NOT c.relispartition
  AND (has_table_privilege('rag_reader', c.oid, 'SELECT')
       OR has_table_privilege('rag_admin', c.oid, 'SELECT'))
SQL

my %parts = (
	columns => \&_columns,
	comment => \&_comment,
	relations => \&_relations,
	signature => \&_signature,
	functions => \&_functions,
	setting => \&_setting,
	settings => \&_settings,
	operators => \&_operators,
	vector_functions => \&_vector_functions);

# The lines of a generated part. Takes a function that answers a query, and the page of each
# function.
sub generated_lines
{
	my ($ask, $what, $pages) = @_;
	my ($kind, $name) = split / /, $what, 2;
	my $part = $parts{$kind} or die "nothing generates \"$what\"\n";
	return $part->($ask, $name, $pages);
}

# Functions, each with the names of its arguments and columns: [name, names...].
sub public_functions
{
	my ($ask) = @_;
	my $names = "coalesce((SELECT string_agg(a, ' ') FROM unnest(p.proargnames) a), '')";
	return map { [ $_->[0], split / /, $_->[1] ] }
	  _rows($ask, "p.proname, $names", $functions, 'p.proname, p.oid');
}

sub readable_relations
{
	my ($ask) = @_;
	return map { "rag.$_->[0]" } _rows($ask, 'c.relname', $relations, 'c.relname');
}

# -- queries and tables
# ------------------------------------------------------------------------------------------------

# Rows of texts.
sub _rows
{
	my ($ask, $columns, $rest, $order) = @_;
	my $row = "concat_ws(E'\\x1f', $columns)";
	my $answer = $ask->("SELECT string_agg($row, E'\\x1e' ORDER BY $order) $rest");
	return map { [ split /\x1f/, $_, -1 ] } split /\x1e/, $answer;
}

sub _table
{
	my ($head, @rows) = @_;
	my @lines = ('| ' . join(' | ', @$head) . ' |', '|' . '---|' x @$head);
	push @lines, '| ' . join(' | ', map { s/\|/\\|/gr =~ s/\s+/ /gr } @$_) . ' |' for @rows;
	return join "\n", @lines;
}

# A paragraph of at most 100 columns. What looks like a name of the extension's is code.
sub _filled
{
	my ($text) = @_;
	$text =~ s/(?<![\w`.])(rag(?:\.\w+|_\w+(?:\(\))?))(?![\w`])/`$1`/g;
	$text =~ s/\*/\\*/g;
	local $Text::Wrap::columns = 101;
	local $Text::Wrap::huge = 'overflow';
	return Text::Wrap::wrap('', '', $text);
}

# -- views and tables
# ------------------------------------------------------------------------------------------------

sub _columns
{
	my ($ask, $relation) = @_;
	my @rows = _rows($ask,
		"'`' || a.attname || '`', '`' || format_type(a.atttypid, a.atttypmod) || '`',
			coalesce(col_description(a.attrelid, a.attnum), '')",
		"FROM pg_attribute a
			WHERE a.attrelid = '$relation'::regclass AND a.attnum > 0 AND NOT a.attisdropped",
		'a.attnum');
	return _table([ 'column', 'type', 'description' ], @rows);
}

# The comment of a relation as a sentence.
sub _comment
{
	my ($ask, $relation) = @_;
	my $comment = $ask->("SELECT obj_description('$relation'::regclass, 'pg_class')");
	return _filled(ucfirst($comment) . ($comment =~ /[.!?]$/ ? '' : '.'));
}

sub _relations
{
	my ($ask, $kind) = @_;
	my $are = $kind eq 'views' ? "c.relkind = 'v'" : "c.relkind <> 'v'";
	my @rows = _rows($ask, "c.relname, coalesce(obj_description(c.oid, 'pg_class'), '')",
		"$relations AND $are", 'c.relname');
	return _table([ $kind =~ s/s$//r, 'description' ],
		map { [ "[`rag.$_->[0]`](#rag$_->[0])", $_->[1] ] } @rows);
}

# -- functions
# ------------------------------------------------------------------------------------------------

sub _signature
{
	my ($ask, $name) = @_;
	# types of the defaults say nothing: NULL::text
	my $cast = "'::[a-z_. ]+(\\[\\])?'";
	my $arguments = "regexp_replace(pg_get_function_arguments(p.oid), $cast, '', 'g')";
	my @rows = _rows($ask,
		"p.prokind, $arguments, coalesce(pg_get_function_result(p.oid), '')",
		"$functions AND p.proname = '$name'", 'p.pronargs, p.oid');
	@rows or die "there is no function $name\n";
	return join "\n", '```', map({ _one_signature($name, @$_) } @rows), '```';
}

sub _one_signature
{
	my ($name, $kind, $arguments, $result) = @_;
	my $text = _wrap("$name(", $arguments, ')');
	return "CALL $text" if $kind eq 'p';
	return $text if $result eq 'void';
	return "$text\n" . _wrap('  → (', $1, ')') if $result =~ /^TABLE\((.*)\)$/;
	my $last = (split /\n/, $text)[-1];
	return $text . (length "$last → $result" > 99 ? "\n  → $result" : " → $result");
}

# A list of arguments, broken before 100 columns.
sub _wrap
{
	my ($begin, $list, $end) = @_;
	my @lines = ($begin);
	my @items = split /, (?![^(]*\))/, $list;
	for my $i (0 .. $#items)
	{
		my $item = $items[$i] . ($i < $#items ? ',' : $end);
		my $blank = $lines[-1] =~ /[(]$|^\s*$/ ? '' : ' ';
		if (length "$lines[-1]$blank$item" > 99) { push @lines, ' ' x length($begin) . $item }
		else { $lines[-1] .= $blank . $item }
	}
	$lines[-1] .= $end unless @items;
	return join "\n", @lines;
}

# The functions that only programs written for other systems call.
my %is_interface = map { $_ => 1 } qw(
  rag_alter_knowledge rag_create_knowledge rag_drop_knowledge rag_index_all_knowledge
  rag_index_knowledge rag_unindex_knowledge
  rag_dify_retrieval rag_knowledge_search rag_retrieve rag_score_band rag_stats
  rag_apply_plan rag_chunk_state rag_delete_chunks rag_upsert_chunks
  rag_apply_manifest rag_delete_manifest rag_get_manifest
  rag_export_blocks rag_import_blocks
  rag_bm25_scores rag_bm25_search rag_pgvector_casts rag_sync_storage);

# The functions of a group, "core" or "interfaces", with a link to the heading that each must have.
sub _functions
{
	my ($ask, $group, $pages) = @_;
	my $granted = <<'SQL';
CASE WHEN has_function_privilege('public', p.oid, 'EXECUTE') THEN 'public'
     WHEN has_function_privilege('rag_reader', p.oid, 'EXECUTE') THEN 'rag_reader'
     ELSE 'rag_admin' END
SQL
	my $comment = "coalesce(obj_description(p.oid, 'pg_proc'), '')";
	my (@table, %seen);
	for my $row (_rows($ask, "p.proname, $granted, $comment", $functions, 'p.proname, p.oid'))
	{
		my ($name, $role, $text) = @$row;
		next if $seen{"$name $text"}++ || ($is_interface{$name} xor $group eq 'interfaces');
		my $page = $pages->{$name} // '?';
		push @table, [ "[`$name`]($page#$name)", "`$role`", $text ];
	}
	return _table([ 'function', 'granted to', 'description' ], @table);
}

# -- settings
# ------------------------------------------------------------------------------------------------

my %context = (
	user => 'any role, at any time',
	superuser => 'superusers, at any time',
	sighup => 'the configuration file, then a reload',
	postmaster => 'the configuration file, then a restart');

sub _setting
{
	my ($ask, $name) = @_;
	my @columns = ('vartype', 'boot_val', 'unit', 'min_val', 'max_val',
		"array_to_string(enumvals, '`, `')", 'context', 'short_desc', 'extra_desc');
	my $columns = join ', ', map { "coalesce($_, '')" } @columns;
	my ($row) = _rows($ask, $columns, "FROM pg_settings WHERE name = '$name'", 'name');
	$row or die "there is no setting $name\n";
	my ($type, $default, $unit, $min, $max, $values, $context, $short, $more) = @$row;
	my @rows = ([ 'default', _amount($default, $unit) ], [ 'type', _type($type, $unit) ]);
	push @rows, [ 'range', _amount($min, $unit) . ' to ' . _amount($max, $unit) ] if $min ne '';
	push @rows, [ 'values', "`$values`" ] if $values ne '';
	push @rows, [ 'set by', $context{$context} // $context ];
	my $text = join "\n\n", map { _filled($_) } grep { $_ ne '' } $short, $more;
	return "\n$text\n\n" . _table([ 'property', 'value' ], @rows);
}

sub _settings
{
	my ($ask) = @_;
	my @rows = _rows($ask,
		"name, coalesce(boot_val, ''), coalesce(unit, ''), context, short_desc",
		"FROM pg_settings WHERE name LIKE 'rag.%'", 'name');
	my @table;
	for my $row (@rows)
	{
		my ($name, $default, $unit, $context, $text) = @$row;
		my $anchor = $name =~ s/\.//r;
		my $by = $context{$context} // $context;
		push @table, [ "[`$name`](#$anchor)", _amount($default, $unit), $by, $text ];
	}
	return _table([ 'setting', 'default', 'set by', 'description' ], @table);
}

my %unit = (
	kB => 'kilobytes', MB => 'megabytes', ms => 'milliseconds', s => 'seconds', min => 'minutes');

sub _type
{
	my ($type, $unit) = @_;
	return $unit eq '' ? $type : "$type, in $unit{$unit} if no unit is given";
}

# Units, each with how many of it are one of the next.
my %larger = (kB => [ 1024, 'MB' ], MB => [ 1024, 'GB' ], GB => [ 1024, 'TB' ],
	ms => [ 1000, 's' ], s => [ 60, 'min' ], min => [ 60, 'h' ],
	h => [ 24, 'd' ]);

# A value in the largest unit of which it is a whole number; a day is 24 h.
sub _amount
{
	my ($value, $unit) = @_;
	return 'empty' if $value eq '';
	while (my $next = $larger{$unit})
	{
		my ($factor, $larger) = @$next;
		last if $value == 0 || $value % $factor != 0 || $larger eq 'd' && $value == $factor;
		($value, $unit) = ($value / $factor, $larger);
	}
	return $unit eq '' ? "`$value`" : "`$value $unit`";
}

# -- the type vector
# ------------------------------------------------------------------------------------------------

sub _operators
{
	my ($ask) = @_;
	my @rows = _rows($ask,
		"'`' || o.oprname || '`', '`' || format_type(o.oprresult, NULL) || '`',
			coalesce(obj_description(o.oid, 'pg_operator'),
				obj_description(o.oprcode, 'pg_proc'), '')",
		"FROM pg_operator o WHERE o.oprleft = 'rag_types.vector'::regtype
			AND o.oprright = 'rag_types.vector'::regtype",
		'o.oprname');
	return _table([ 'operator', 'result', 'description' ], @rows);
}

sub _vector_functions
{
	my ($ask) = @_;
	my @rows = _rows($ask,
		"'`' || p.proname || '(' || pg_get_function_arguments(p.oid) || ')`',
			'`' || pg_get_function_result(p.oid) || '`',
			coalesce(obj_description(p.oid, 'pg_proc'), '')",
		"FROM pg_proc p WHERE p.pronamespace = 'rag_functions'::regnamespace",
		'p.proname, p.oid');
	return _table([ 'function', 'result', 'description' ], @rows);
}

1;
