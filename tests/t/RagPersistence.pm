# Random operations on collections, and a model of what they leave. A test applies operations, and
# compares everything that the server says of a collection with the model: status, counts,
# documents, chunks, answers of searches, relations and files.
#
# All choices come from one seed. RAG_TEST_SEED repeats a failure, RAG_TEST_CASES changes the number
# of cases.
package RagPersistence;

use strict;
use warnings;
use utf8;

use Digest::MD5 qw(md5_hex);
use Encode qw(encode_utf8);
use JSON::PP ();
use RagCluster;
use RagPersistenceOperations;
use Test::More;


my $json = JSON::PP->new->canonical->utf8;
my @words = qw(harbour tide vessel anchor lantern meadow orchard glacier timber walnut falcon
  river bridge garden window engine ledger beacon copper violet thunder saddle parcel ribbon);
# What a title, category or tag may contain.
my @names =
  ('plain', q{it's}, 'back\\slash', '100 %', 'a "quoted" one', 'Größe', '日本', 'x:y/z');
my @retrievers =
  qw(default persist-flat persist-small persist-words persist-fixed persist-rolling);

# Options: seed, and the number of cases.
sub new
{
	my ($class, $node, %option) = @_;
	my $seed = $ENV{RAG_TEST_SEED} // $option{seed} // 1;
	my $self = bless {
		node => $node,
		seed => $seed,
		state => $seed % 2147483646 + 1,
		count => 0,
		cases => $option{cases} // 100,
		collections => {}
	}, $class;
	note("RAG_TEST_SEED=$seed");
	$self->pick(2) for 1 .. 10;
	$node->safe_psql('postgres', _functions());
	return $self;
}

# The number of cases.
sub cases { my ($self) = @_; return $ENV{RAG_TEST_CASES} // $self->{cases} }

# -- chance
# ----------------------------------------

# A number from 0 to below $n.
sub pick
{
	my ($self, $n) = @_;
	$self->{state} = $self->{state} * 48271 % 2147483647;
	return int($self->{state} / 2147483647 * $n);
}

sub one_of { my ($self, @of) = @_; return $of[ $self->pick(scalar @of) ] }

sub word { my ($self) = @_; return $self->one_of(@words) }

sub name { my ($self) = @_; return $self->one_of(@names) }

# True in one of $n cases.
sub chance { my ($self, $n) = @_; return $self->pick($n) == 0 }

# -- documents
# ----------------------------------------

# A text of some sentences with a word of its own, which a search can look for.
sub text
{
	my ($self, $sentences) = @_;
	my $marker = sprintf 'mk%d', ++$self->{count};
	my @sentences = map {
		join(' ', 'The', map { $self->one_of(@words) } 1 .. 4 + $self->pick(6)) . '.'
	} 1 .. $sentences // 1 + $self->pick(5);
	return { marker => $marker, content => "$marker. @sentences" };
}

sub labels
{
	my ($self) = @_;
	return (
		title => $self->one_of(@names) . ' ' . ++$self->{count},
		category => $self->chance(3) ? undef : $self->one_of(@names),
		tags => [ map { "$_" } grep { $self->chance(4) } @names ]);
}

# Runs a statement. Returns its output.
sub query
{
	my ($self, $sql) = @_;
	return Encode::decode_utf8(ask($self->{node}, encode_utf8($sql)));
}

# -- collections
# ----------------------------------------

# Creates a collection with settings of chance.
sub create
{
	my ($self, $name, %setting) = @_;
	my $size = 80 + $self->pick(300);
	my $c = {
		name => $name,
		retriever => $self->one_of(@retrievers),
		chunk_size => $size,
		chunk_overlap => $self->pick(int($size / 4)),
		text_config => $self->one_of(qw(english simple)),
		documents => {},
		%setting
	};
	# collections that share a partition have one
	$c->{text_config} = 'english' if $c->{retriever} =~ /fixed|rolling/;
	my $made = $self->query(
		sprintf 'SELECT rag_create_collection(%s, %s, %d, %d, text_config => %s)',
		map({ literal($_) } @$c{qw(name retriever)}), @$c{qw(chunk_size chunk_overlap)},
		literal($c->{text_config}));
	$made eq '' or die "cannot create $name: $made";
	return $self->{collections}{$name} = $c;
}

# Applies an operation. Returns what is wrong.
sub apply
{
	my ($self, $c, $operation) = @_;
	my $output = $self->query($operation->{sql});
	return "$c->{name}: $operation->{name} returned '$output', not '$operation->{output}'"
	  if $output ne $operation->{output};
	$operation->{apply}->();
	$self->{applied}{ $operation->{name} }++;
	$c->{was_indexed} ||= grep { defined $_->{content} } values %{ $c->{documents} };
	$c->{moved} = $operation->{changes} if !$c->{moved};
	return;
}

# Fills a collection by some operations. Returns what is wrong.
sub fill
{
	my ($self, $c, $operations, @names) = @_;
	return map { $self->apply($c, possible($self, $c, @names)) } 1 .. $operations;
}

# -- comparison
# ----------------------------------------

# What the server says of collections, by name.
sub observe
{
	my ($self, @names) = @_;
	my $list = join ', ', map { literal($_) } @names;
	my $seen = $self->query("SELECT jsonb_object_agg(n, probe.observe(n))
		FROM unnest(ARRAY[$list]::text[]) AS n");
	return $json->decode(encode_utf8($seen || '{}'));
}

# Compares collections with the model. Returns what is wrong.
sub wrong
{
	my ($self, @names) = @_;
	my $seen = $self->observe(@names);
	return map { $self->_differences($self->{collections}{$_}, $seen->{$_}) } @names;
}

sub _differences
{
	my ($self, $c, $seen) = @_;
	return "$c->{name}: does not exist" if !$seen;
	my $status = $seen->{status};
	my %documents = %{ $c->{documents} };
	my @indexed = grep { defined $_->{content} } values %documents;
	my $errors = grep { $_->{error} } values %documents;
	my $keywords = $c->{retriever} ne 'persist-flat';
	my %is = (
		has_index => @indexed ? 1 : 0,
		document_count => scalar @indexed,
		error_count => $errors,
		state => $errors ? 'degraded' : @indexed ? 'ready' : 'empty',
		retriever => $c->{retriever},
		dimensions => $c->{was_indexed} ? 384 : undef,
		wanted => $c->{retriever} =~ /flat/ ? 'flat' : 'hnsw',
		sources => $c->{source} // '',
		description => $c->{description});
	my @wrong = map { _difference($_, $status->{$_}, $is{$_}) } sort keys %is;

	my $stored = $seen->{documents};
	my %uri = (%documents, %$stored);
	for my $uri (sort keys %uri)
	{
		my ($is, $was) = ($stored->{$uri}, $documents{$uri});
		if (!$is || !$was)
		{
			push @wrong, $is ? "has $uri" : "lacks $uri";
			next;
		}
		push @wrong, map { "$uri: $_" } _difference('status', $is->{status},
			$was->{error} ? 'error' : 'active');
		next if !defined $was->{content};
		push @wrong, map { "$uri: $_" }
		  _difference('text', $is->{text}, md5_hex(encode_utf8($was->{content}))),
		  _difference('title', $is->{title}, $was->{title}),
		  _difference('category', $is->{category}, $was->{category}),
		  _difference('tags', map { join '|', @{ $_->{tags} // [] } } $is, $was);
		push @wrong, "$uri: its chunks are not those of its text" if !$is->{is_split};
	}
	my $chunks = 0;
	$chunks += $_->{chunks} // 0 for values %$stored;
	push @wrong, _difference('chunk_count', $status->{chunk_count}, $chunks),
	  _difference('orphans', $seen->{orphans} // 0, 0),
	  _difference('missing files', join(' ', @{ $seen->{missing_files} // [] }), ''),
	  _difference('sizes', $status->{sizes}, 'sum');
	my $has_words = grep { $_ eq 'rag_bm25' } @{ $seen->{methods} // [] };
	push @wrong, 'has no keyword index' if $keywords && $c->{was_indexed} && !$has_words;
	push @wrong, "does not find: $seen->{found}" if defined $seen->{found};
	push @wrong, _moved($c, $status->{updated_at});
	return map { "$c->{name}: $_" } @wrong;
}

# updated_at increases with each change, and only then.
sub _moved
{
	my ($c, $now) = @_;
	my $before = $c->{updated_at};
	my $should = delete $c->{moved};
	$c->{updated_at} = $now;
	return if !defined $before;
	return "updated_at went from $before back to $now" if $now lt $before;
	return "updated_at stayed $now" if $should && $now eq $before;
	return "updated_at moved from $before to $now" if !$should && $now ne $before;
	return;
}

sub _difference
{
	my ($what, $is, $should) = @_;
	return if ($is // 'null') eq ($should // 'null');
	return "$what is " . ($is // 'null') . ', not ' . ($should // 'null');
}

# Compares the answers of searches with the model. Returns what is wrong. Texts that are gone must
# not be found.
sub wrong_answers
{
	my ($self, $c, @gone) = @_;
	my %uri = map { $c->{documents}{$_}{marker} => $_ }
	  uris($c, sub { defined $_[0]{content} });
	my $mode = $c->{retriever} eq 'persist-flat' ? 'vector' : 'keyword';
	my @wrong;
	for my $marker (sort(keys %uri), @gone)
	{
		my $found = $self->query(
			sprintf q{SELECT coalesce(string_agg(DISTINCT uri, ' '), '') FROM rag_search(%s, %s,
				top_k => 1000, mode => '%s') WHERE content ~ ('\\m' || %s || '\\M')},
			literal($marker), literal($c->{name}), $mode, literal($marker));
		push @wrong, map { "$c->{name}: $marker: $_" } _difference('found', $found,
			$uri{$marker} // '');
	}
	return @wrong;
}

# A value that changes with everything that is stored of a collection.
sub digests
{
	my ($self, @names) = @_;
	my $list = join ', ', map { literal($_) } @names;
	my $seen = $self->query("SELECT jsonb_object_agg(n, probe.digest(n))
		FROM unnest(ARRAY[$list]::text[]) AS n");
	return $json->decode(encode_utf8($seen || '{}'));
}

# What is left of collections that were dropped.
sub left_of
{
	my ($self, @names) = @_;
	my $list = join ', ', map { literal($_) } @names;
	return $self->query("SELECT coalesce(string_agg(l, ', '), '')
		FROM probe.left_of(ARRAY[$list]::text[]) AS l");
}

# Files of the database that belong to no relation.
sub stray_files
{
	my ($self) = @_;
	return $self->query('CHECKPOINT; SELECT coalesce(string_agg(f, \' \'), \'\')
		FROM probe.stray_files() AS f');
}

sub _functions
{
	open my $file, '<', (__FILE__ =~ s{[^/]*$}{}r) . "persistence.sql" or die "persistence.sql: $!";
	local $/;
	return <$file>;
}

1;
