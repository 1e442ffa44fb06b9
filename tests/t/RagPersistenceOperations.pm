# Operations of RagPersistence.pm on a collection.
#
# Each function takes the test and a collection of the model. It returns the SQL, its output, a
# change of the model, and 0 for the number of changes if updated_at must not move. It returns undef
# if the operation is not possible now.
package RagPersistenceOperations;

use strict;
use warnings;
use utf8;

use Digest::MD5 qw(md5_hex);
use Encode qw(encode_utf8);
use Exporter 'import';
use JSON::PP ();
use RagCluster;

our @EXPORT = qw(literal uris possible add_document);

sub literal
{
	my ($text) = @_;
	return 'NULL' if !defined $text;
	return q{'} . ($text =~ s/'/''/gr) . q{'};
}

# The uris of a collection that a condition selects.
sub uris
{
	my ($collection, $condition) = @_;
	my $documents = $collection->{documents};
	return grep { $condition->($documents->{$_}) } sort keys %$documents;
}

sub _tags
{
	my ($document) = @_;
	return 'ARRAY[' . join(', ', map { literal($_) } @{ $document->{tags} }) . ']::text[]';
}

my %operations = (
	add => sub {
		my ($self, $c) = @_;
		my $uri = $self->one_of('doc', 'a/b', q{it's}, 'Größe') . '/' . ++$self->{count};
		return add_document($self, $c, $uri, { %{ $self->text }, $self->labels }, 'added');
	},
	replace => sub {
		my ($self, $c) = @_;
		my $uri = $self->one_of(uris($c, sub { $_[0]{kind} eq 'text' })) // return;
		my $before = $c->{documents}{$uri};
		my $new = { %$before, %{ $self->text }, $self->labels };
		return add_document($self, $c, $uri, $new, 'updated');
	},
	repeat => sub {
		my ($self, $c) = @_;
		# a title that rag_update_document has set is not embedded yet
		my $is_same = sub { $_[0]{kind} eq 'text' && !$_[0]{error} && !$_[0]{retitled} };
		my $uri = $self->one_of(uris($c, $is_same)) // return;
		my $again = add_document($self, $c, $uri, $c->{documents}{$uri}, 'unchanged');
		return { %$again, changes => 0 };
	},
	add_many => sub {
		my ($self, $c) = @_;
		my %new = map { ('many/' . ++$self->{count}) => { %{ $self->text }, $self->labels } }
		  1 .. 2 + $self->pick(3);
		my $failed = $self->chance(2) ? 'many/' . ++$self->{count} : undef;
		my @objects = map {
			my $d = $new{$_};
			{ uri => $_, map { $_ => $d->{$_} } qw(content title category tags) }
		} sort keys %new;
		push @objects, { uri => $failed, content => '' } if $failed;
		return {
			sql => sprintf('SELECT count(*) FROM rag_add_documents(%s, %s) WHERE success',
				literal(_json(\@objects)), literal($c->{name})),
			output => scalar keys %new,
			apply => sub {
				$c->{documents}{$_} = { kind => 'text', %{ $new{$_} } } for keys %new;
				$c->{documents}{$failed} = { kind => 'text', error => 1 } if $failed;
			}
		};
	},
	fail => sub {
		my ($self, $c) = @_;
		my $uri = $self->one_of(uris($c, sub { $_[0]{kind} eq 'text' && !$_[0]{error} }), undef)
		  // 'failed/' . ++$self->{count};
		my $before = $c->{documents}{$uri} // { kind => 'text' };
		return {
			sql => sprintf(
				q{SELECT success, action FROM rag_add_document('', %s, collection => %s)},
				literal($uri), literal($c->{name})),
			output => 'f|failed',
			apply => sub { $c->{documents}{$uri} = { %$before, error => 1 } }
		};
	},
	update => sub {
		my ($self, $c) = @_;
		my $is_own = sub { defined $_[0]{content} && $_[0]{kind} ne 'file' };
		my $uri = $self->one_of(uris($c, $is_own)) // return;
		my %new = (retitled => 1, $self->labels);
		$new{category} //= 'other';
		return {
			sql => sprintf('SELECT rag_update_document(document_id, title => %s, category => %s,
				tags => %s) FROM rag.documents
				WHERE collection = %s AND uri = %s',
				literal($new{title}), literal($new{category}), _tags(\%new), literal($c->{name}),
				literal($uri)),
			output => 't',
			apply => sub { %{ $c->{documents}{$uri} } = (%{ $c->{documents}{$uri} }, %new) }
		};
	},
	remove => sub {
		my ($self, $c) = @_;
		my $uri = $self->one_of(uris($c, sub { $_[0]{kind} ne 'file' })) // return;
		return {
			sql => sprintf('SELECT rag_delete_document(document_id) FROM rag.documents
				WHERE collection = %s AND uri = %s',
				literal($c->{name}), literal($uri)),
			output => 't',
			apply => sub { delete $c->{documents}{$uri} }
		};
	},
	given => sub {
		my ($self, $c) = @_;
		my $uri = 'given/' . ++$self->{count};
		my %labels = $self->labels;
		my @chunks =
		  map { { id => _uuid("$uri $_"), %{ $self->text(1) } } } 1 .. 1 + $self->pick(3);
		my @objects = map { { chunk_id => $_->{id}, uri => $uri, text => $_->{content}, %labels } }
		  @chunks;
		return {
			sql => sprintf('SELECT rag_upsert_chunks(%s, %s)',
				literal(_json(\@objects)), literal($c->{name})),
			output => scalar @chunks,
			apply => sub {
				$c->{documents}{$uri} = { kind => 'given', %labels };
				_set_chunks($c->{documents}{$uri}, @chunks);
			}
		};
	},
	delete_chunk => sub {
		my ($self, $c) = @_;
		my $uri = $self->one_of(uris($c, sub { $_[0]{kind} eq 'given' })) // return;
		my ($first, @others) = @{ $c->{documents}{$uri}{chunks} };
		return {
			sql => sprintf(q{SELECT rag_delete_chunks(ARRAY[%s]::text[], %s)},
				literal($first->{id}), literal($c->{name})),
			output => 1,
			apply => sub {
				@others ? _set_chunks($c->{documents}{$uri}, @others)
				  : delete $c->{documents}{$uri};
			}
		};
	},
	alter => sub {
		my ($self, $c) = @_;
		my $description = $self->name . ++$self->{count};
		return {
			sql => sprintf('SELECT rag_alter_collection(%s, description => %s)',
				literal($c->{name}), literal($description)),
			output => '',
			apply => sub { $c->{description} = $description }
		};
	},
	sync => sub {
		my ($self, $c) = @_;
		return _sync($self, $c);
	},
	# other chunks
	rebuild => sub {
		my ($self, $c) = @_;
		return if !$c->{was_indexed};
		my $size = 80 + $self->pick(300);
		return {
			sql => sprintf('SELECT rag_alter_collection(%s, chunk_size => %d, chunk_overlap => %d);
				CALL rag_rebuild_collection(%s)',
				literal($c->{name}), $size, $self->pick(int($size / 4)), literal($c->{name})),
			output => '',
			apply => sub { }
		};
	},
	# another place for the chunks
	move => sub {
		my ($self, $c) = @_;
		return if !$c->{was_indexed} || $c->{text_config} ne 'english';
		my @others = grep { $_ ne $c->{retriever} } qw(default persist-fixed persist-rolling);
		my $retriever = $self->one_of(@others);
		return {
			sql => sprintf('SELECT rag_alter_collection(%s, retriever => %s);
				CALL rag_rebuild_collection(%s)',
				literal($c->{name}), literal($retriever), literal($c->{name})),
			output => '',
			apply => sub { $c->{retriever} = $retriever }
		};
	},
	# a bundle is written, and read after the collection was dropped
	bundle => sub {
		my ($self, $c) = @_;
		my $parent = $self->{bundles} //= temp_folder();
		chmod 0755, $parent;
		my $folder = literal("$parent/" . ++$self->{count});
		my $name = literal($c->{name});
		return {
			sql => "SET rag.bundle_folders = '$parent';
				SELECT documents = (SELECT count(*) FROM rag.documents WHERE collection = $name)
					FROM rag_export_collection($name, $folder);
				SELECT rag_drop_collection($name, with_sources => true) IS NULL;
				SELECT collection FROM rag_import_collection($folder, with_sources => true)",
			output => "t\nf\n$c->{name}",
			changes => 0,
			apply => sub { }
		};
	},
	nothing => sub {
		my ($self, $c) = @_;
		return {
			sql => sprintf('SELECT count(*) FROM rag_search(%s, %s, 0 + 1) WHERE false',
				literal($self->word), literal($c->{name})),
			output => 0,
			changes => 0,
			apply => sub { }
		};
	});

# An operation of chance that is possible now: one of those that are named, or any.
sub possible
{
	my ($self, $c, @names) = @_;
	@names = sort keys %operations if !@names;
	for my $name ((map { $self->one_of(@names) } 1 .. 100), 'add')
	{
		my $operation = $operations{$name}->($self, $c) or next;
		return { name => $name, changes => 1, %$operation };
	}
	return;
}

# Adds or replaces a document.
sub add_document
{
	my ($self, $c, $uri, $document, $action) = @_;
	my $new = { kind => 'text', %$document };
	delete @$new{qw(error retitled)};
	return {
		sql => sprintf('SELECT success, action FROM rag_add_document(%s, %s, %s, category => %s,
			tags => %s, collection => %s)',
			literal($new->{content}), literal($uri), literal($new->{title}),
			literal($new->{category}), _tags($new), literal($c->{name})),
		output => "t|$action",
		apply => sub { $c->{documents}{$uri} = $new }
	};
}

# Changes some files of the collection's folder, and syncs its source, which the first call creates.
sub _sync
{
	my ($self, $c) = @_;
	my $folder = $c->{folder} //= temp_folder();
	my %files = %{ $c->{files} //= {} };
	my @names = sort keys %files;
	unlink "$folder/" . $self->one_of(@names) if @names > 1 && $self->chance(3);
	my @changed = grep { defined } $self->one_of(@names, undef), 'file-' . ++$self->{count} . '.md';
	for my $name (@changed)
	{
		my $text = $self->text;
		$text->{title} = "File $self->{count}";
		$text->{content} = "# $text->{title}\n\n$text->{content}\n";
		$files{$name} = $text;
		write_file("$folder/$name", $text->{content});
	}
	-e "$folder/$_" or delete $files{$_} for keys %files;
	my $source = $c->{source} // "source-$c->{name}";
	my $create =
	  $c->{source} ? '' : sprintf(q[SELECT rag_create_source(%s, 'folder', %s, %s) IS NULL;],
		literal($source), literal(_json({ path => $folder })), literal($c->{name}));
	return {
		sql => "$create SELECT rag_sync(" . literal($source) . ') > 0',
		output => ($create ? "f\n" : '') . 't',
		apply => sub {
			@$c{qw(source files)} = ($source, \%files);
			delete $c->{documents}{$_} for uris($c, sub { $_[0]{kind} eq 'file' });
			$c->{documents}{"file://$folder/$_"} = { kind => 'file', %{ $files{$_} } }
			  for keys %files;
		}
	};
}

sub _set_chunks
{
	my ($document, @chunks) = @_;
	$document->{chunks} = \@chunks;
	$document->{content} = join "\n\n", map { $_->{content} } @chunks;
	$document->{marker} = $chunks[0]{marker};
	return;
}

sub _uuid { return md5_hex(encode_utf8($_[0])) =~ s/(.{8})(.{4})(.{4})(.{4})/$1-$2-$3-$4-/r }

sub _json { return JSON::PP->new->canonical->encode($_[0]) }

1;
